package history

import (
	"slices"
	"time"
)

// maxMarks bounds the marks that are kept; the oldest go first.
const maxMarks = 50

// Mark is something that somebody did, to be seen in the charts.
type Mark struct {
	At      time.Time
	Ingress string // "" = all
	Text    string
}

// Mark notes that somebody did something to an ingress, "" = to all.
func (b *Book) Mark(now time.Time, ingress, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marks = append(b.marks, Mark{now.UTC(), ingress, text})
	if len(b.marks) > maxMarks {
		b.marks = slices.Delete(b.marks, 0, len(b.marks)-maxMarks)
	}
}

// MarkOnce is [Book.Mark] unless somebody did something at that time already.
func (b *Book) MarkOnce(now time.Time, ingress, text string) {
	b.mu.Lock()
	near := slices.ContainsFunc(b.marks, func(m Mark) bool { return m.At.Sub(now).Abs() <= markNear })
	b.mu.Unlock()
	if !near {
		b.Mark(now, ingress, text)
	}
}

// Marks returns what was done in the time that is kept, the oldest first.
func (b *Book) Marks(now time.Time) []Mark {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := slices.IndexFunc(b.marks, func(m Mark) bool { return now.Sub(m.At) <= Kept })
	if first < 0 {
		return nil
	}
	return slices.Clone(b.marks[first:])
}

// Kept is for how long what happened is kept.
const Kept = 30 * time.Minute
