package vitals

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/admitd/admitd/limiter"
)

const (
	// maxChanges is how many changes of one limit are kept.
	maxChanges = 20
	// maxHistories is of how many partitions of an ingress they are kept.
	maxHistories = 2000
	// remeasured is by how much, as a share, the latency without load must move
	// to have been learned anew.
	remeasured = 0.1
)

// Change is one time that a limit moved. It is seen once a second: of several
// moves within one, the sum.
type Change struct {
	At       time.Time
	From, To int
	Why      string // a word of the algorithm's; "" = it does not tell
}

// Baseline is the latency without load, as a limit believes it.
type Baseline struct {
	RTT      time.Duration // 0 = unknown
	Learned  time.Time     // when it was last seen to move
	InFlight int           // requests in flight then
	Kept     bool          // learned in an earlier life of the process
}

// A Learned baseline, and of which partition.
type Learned struct {
	Ingress, Partition string
	Key                bool // as in [limiter.PartitionStatus]
	Baseline           Baseline
}

// Baselines returns what the limits believe now: of each ingress the partitions
// that are asked most first.
func (b *Book) Baselines() (all []Learned) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, r := range b.ingresses {
		var known []*partition
		for p := range r.roll.all() {
			if p.base.RTT > 0 {
				known = append(known, p)
			}
		}
		slices.SortFunc(known, func(p, q *partition) int {
			return cmp.Or(cmp.Compare(q.active, p.active), cmp.Compare(p.last.Name, q.last.Name))
		})
		for _, p := range known {
			l := Learned{name, p.last.Name, p.last.Key, p.base}
			l.Baseline.RTT = p.last.BaseRTT
			all = append(all, l)
		}
	}
	return all
}

// Explanation says why a limit is what it is.
type Explanation struct {
	Ingress, Partition string
	Text               string // some sentences
	Limit, InFlight    int
	Baseline           Baseline
	Changes            []Change // the newest first
}

// whys words why a limit moved.
var whys = map[string]string{ //nolint:gochecknoglobals // a table
	"room":       "it was needed and nothing spoke against more",
	"demand":     "requests were refused while nothing waited at the backend",
	"busy":       "the backend turned out to do more",
	"queue":      "requests waited at the backend",
	"unused":     "much less was in flight than it allowed",
	"drops":      "the backend failed or refused",
	"timeouts":   "answers were slower than the target",
	"drain":      "it was lowered for a moment, to measure the latency without a queue",
	"slower":     "the latency without a queue is not what it was",
	"departures": "callers left before they were answered",
	"reset":      "what it was computed from was no number, so that it began again",
	"fleet":      "its group of gates shares one limit out by who is asked how much",
}

// Words returns what a word of an algorithm's means, "" for an unknown one.
func Words(why string) string { return whys[why] }

// ChangeCount is how often limits moved for one reason.
type ChangeCount struct {
	Ingress, Partition, Why string // the partition as metrics name it
	Count                   uint64
}

// LimitChanges returns how often limits moved, as far as it was seen.
func (b *Book) LimitChanges() (all []ChangeCount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, r := range b.ingresses {
		for key, n := range r.moved {
			all = append(all, ChangeCount{name, key[0], key[1], n})
		}
	}
	slices.SortFunc(all, func(a, b ChangeCount) int {
		return strings.Compare(a.Ingress+"\x00"+a.Partition+"\x00"+a.Why, b.Ingress+"\x00"+b.Partition+"\x00"+b.Why)
	})
	return all
}

// watchLimit notes what happened to a partition's limit since the last reading.
func (r *record) watchLimit(now time.Time, p *partition, g *limiter.Glance) {
	if g.BaseRTT > 0 && moved(p.base.RTT, g.BaseRTT) {
		before := p.base.RTT
		p.base = Baseline{RTT: g.BaseRTT, Learned: now, InFlight: g.InFlight}
		if kept, ok := r.kept(g); ok && before == 0 {
			p.usual = float64(kept.RTT) // also when it is another now: that may be a brown-out
			if !moved(kept.RTT, g.BaseRTT) {
				p.base, p.base.Kept = kept, true
			}
		}
	}
	if p.first.IsZero() {
		p.first = now
		return
	}
	if g.Limit == p.last.Limit {
		return
	}
	label := g.Name
	if g.Key {
		label = limiter.DefaultPartition
	}
	why := g.Why
	if why == "" {
		why = "configured"
	}
	if r.moved == nil {
		r.moved = map[[2]string]uint64{}
	}
	r.moved[[2]string{label, why}]++
	if p.changes == nil {
		if r.histories >= maxHistories {
			return
		}
		r.histories++
	}
	p.changes = append(p.changes, Change{now, p.last.Limit, g.Limit, g.Why})
	if len(p.changes) > maxChanges {
		p.changes = slices.Delete(p.changes, 0, 1)
	}
}

// moved reports whether a baseline is another than the one that was learned.
func moved(old, now time.Duration) bool {
	return old == 0 || math.Abs(float64(now-old)) > remeasured*float64(old)
}

// kept returns what was learned of a partition in an earlier life.
func (r *record) kept(g *limiter.Glance) (Baseline, bool) {
	if r.recall == nil {
		return Baseline{}, false
	}
	return r.recall(g.Name, g.Key)
}

// Explain says why the limit of a partition is what it is; false when there is
// no such partition. A client's key comes before a name of the configuration.
func (b *Book) Explain(name, key string, now time.Time) (Explanation, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.ingresses[name]
	if r == nil {
		return Explanation{}, false
	}
	p := r.roll.find(key, true)
	if p == nil {
		p = r.roll.find(key, false)
	}
	if p == nil {
		return Explanation{}, false
	}
	e := Explanation{Ingress: name, Partition: key, Limit: p.last.Limit, InFlight: p.last.InFlight, Baseline: p.base}
	e.Changes = slices.Clone(p.changes)
	slices.Reverse(e.Changes)
	e.Text = strings.Join(p.sentences(r, now), " ")
	return e, true
}

// because words why a limit moved last.
func (c *Change) because() string {
	verb, cause := "raised", "by a change of the configuration"
	if c.To < c.From {
		verb = "lowered"
	}
	if words := Words(c.Why); words != "" {
		cause = "because " + words
	} else if c.Why != "" {
		cause = "(" + c.Why + ")"
	}
	return fmt.Sprintf("%s from %d to %d at %s, %s", verb, c.From, c.To, c.At.UTC().Format(time.TimeOnly), cause)
}

// sentence is a line of sentences that stays the same while nothing happens.
func (p *partition) sentence(r *record) string {
	text := "It has not moved since it was first seen."
	if n := len(p.changes); n > 0 {
		text = "It was " + p.changes[n-1].because() + "."
	}
	if r.status.Fallback {
		text = "The clock cannot be trusted: it is the fixed fallback."
	}
	if p.base.RTT > 0 {
		text += fmt.Sprintf(" Without load the backend takes %s, learned at %s with %d in flight.",
			millis(p.base.RTT), p.base.Learned.UTC().Format("2006-01-02 15:04"), p.base.InFlight)
	}
	return text
}

// sentences words why a limit is what it is.
func (p *partition) sentences(r *record, now time.Time) (text []string) {
	g := &p.last
	text = append(text, fmt.Sprintf("The limit of %s is %d; %d are in flight.", g.Name, g.Limit, g.InFlight))
	if r.status.Fallback {
		text = append(text, "The clock cannot be trusted: it is the fixed fallback.")
	}
	if n := len(p.changes); n > 0 {
		c := p.changes[n-1]
		verb := "raised"
		if c.To < c.From {
			verb = "lowered"
		}
		cause := "by a change of the configuration"
		if words := Words(c.Why); words != "" {
			cause = "because " + words
		} else if c.Why != "" {
			cause = "(" + c.Why + ")"
		}
		text = append(text, fmt.Sprintf("It was %s from %d to %d %s ago, %s.", verb, c.From, c.To, age(now.Sub(c.At)), cause))
	} else {
		text = append(text, fmt.Sprintf("It has not moved for %s, since it was first seen.", age(now.Sub(p.first))))
	}
	if p.base.RTT > 0 {
		when := ""
		if p.base.Kept {
			when = ", before this process began, and kept in the state file"
		}
		text = append(text, fmt.Sprintf("Without load the backend takes %s: learned %s ago, with %d in flight%s.",
			millis(p.base.RTT), age(now.Sub(p.base.Learned)), p.base.InFlight, when))
	}
	if total := r.status.Total; total > 0 && r.status.InFlight >= total {
		text = append(text, fmt.Sprintf("The total of %d %s over all partitions is used up, and binds before it.", total, plural(total, "permit")))
	}
	if p.refused > least {
		refused := number(p.refused) + "/s are refused"
		if cause, known := p.cause(); known {
			refused += ": " + r.nameOf(cause, g.Name)
		}
		text = append(text, refused+".")
	}
	return text
}
