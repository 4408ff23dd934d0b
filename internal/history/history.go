package history

import (
	"math"
	"slices"
	"time"

	"github.com/admitd/admitd/labels"
)

// keptPartitions is of how many partitions of each ingress the history is kept:
// those that are asked most.
const keptPartitions = 20

// Columns returns the names of the figures of a [Series], in their order: rates
// per second, times in milliseconds. The reasons of refusals come first.
func Columns() []string {
	var all []string
	for _, reason := range labels.Reasons() {
		all = append(all, string(reason))
	}
	return append(all, "admitted", "rejected", "would", "failed", "limit", "inFlight", "queued", "rtt", "base", "wait", "p99")
}

// Series are figures of one ingress or partition, one row a second. A figure
// that is not known is NaN.
type Series struct {
	at     []time.Time
	values []float32 // rows of as many as there are columns
}

// keptRows is how many rows are kept.
const keptRows = int(Kept / time.Second)

// add adds a row, and drops the oldest when there are too many.
func (s *Series) add(now time.Time, row []float32) {
	if len(s.at) >= keptRows+keptRows/8 { // moved now and then, not every second
		drop := len(s.at) - keptRows
		s.at = append(s.at[:0], s.at[drop:]...)
		s.values = append(s.values[:0], s.values[drop*len(row):]...)
	}
	s.at = append(s.at, now)
	s.values = append(s.values, row...)
}

// Excerpt is what happened after a time.
type Excerpt struct {
	At     []time.Time
	Values map[string][]float64 // by column; NaN = not known
}

// since returns the rows after a time, at most the last that are kept.
func (s *Series) since(after time.Time) Excerpt {
	columns := Columns()
	first, _ := slices.BinarySearchFunc(s.at, after, func(at, t time.Time) int {
		if at.After(t) {
			return 1
		}
		return -1
	})
	first = max(first, len(s.at)-keptRows)
	e := Excerpt{At: slices.Clone(s.at[first:]), Values: map[string][]float64{}}
	for c, name := range columns {
		column := make([]float64, 0, len(s.at)-first)
		some := false
		for i := first; i < len(s.at); i++ {
			v := float64(s.values[i*len(columns)+c])
			some = some || v != 0 && !math.IsNaN(v)
			column = append(column, v)
		}
		if some { // a column of nothing is left out
			e.Values[name] = column
		}
	}
	return e
}

// History is what happened in one ingress.
type History struct {
	Ingress    Excerpt
	Partitions map[string]Excerpt // of those that are asked most, by name
}

// History returns what happened in an ingress after a time; false when there is
// no such ingress.
func (b *Book) History(name string, after time.Time) (h History, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.ingresses[name]
	if r == nil {
		return h, false
	}
	h = History{Ingress: r.series.since(after), Partitions: map[string]Excerpt{}}
	for p := range r.roll.all() {
		if p.series != nil {
			h.Partitions[p.last.Name] = p.series.since(after)
		}
	}
	return h, true
}

// remember adds what is now to the histories.
func (r *record) remember(now time.Time) {
	r.series.add(now, r.row())
	for _, p := range r.roll.charted {
		if p.rank >= 2*keptPartitions {
			p.series = nil // others have been busier for long
		}
	}
	for i, p := range r.roll.ranked[:min(len(r.roll.ranked), 2*keptPartitions)] {
		if p.series == nil && i < keptPartitions {
			p.series = &Series{}
		}
		if p.series != nil {
			p.series.add(now, p.row())
		}
	}
}

// row returns the ingress's figures of this second.
func (r *record) row() []float32 {
	var row []float32
	n := len(r.window)
	var before, last *totals
	if n > 1 {
		before, last = &r.window[n-2], &r.window[n-1]
	}
	per := func(f func(t *totals) uint64) float32 {
		if before == nil {
			return float32(math.NaN())
		}
		from, to := f(before), f(last)
		return float32(float64(to-min(from, to)) / max(last.at.Sub(before.at).Seconds(), 0.001))
	}
	for _, reason := range labels.Reasons() {
		row = append(row, per(func(t *totals) (n uint64) {
			for cause, k := range t.byCause {
				if cause.Reason == reason {
					n += k
				}
			}
			return n
		}))
	}
	return append(row, per(func(t *totals) uint64 { return t.admitted }), per(func(t *totals) uint64 { return t.refused }),
		per(func(t *totals) uint64 { return t.would }), per(func(t *totals) uint64 { return t.failed }),
		float32(r.pace.limit), float32(r.status.InFlight), float32(r.status.Queued), latency(r.pace.rtt), latency(r.pace.base), latency(r.pace.wait), latency(r.latencies.p99))
}

// row returns the partition's figures of this second. Its refusals are not
// parted by reason.
func (p *partition) row() []float32 {
	row := make([]float32, len(labels.Reasons()), len(labels.Reasons())+11)
	for i := range row {
		row[i] = float32(math.NaN())
	}
	return append(row, p.now.admitted, p.now.refused, p.now.would, p.now.dropped,
		float32(p.last.Limit), float32(p.last.InFlight), float32(p.last.Queued), latency(p.now.rtt), latency(p.last.BaseRTT), float32(math.NaN()), float32(math.NaN()))
}

// latency words a latency in milliseconds, NaN when it is not known.
func latency(d time.Duration) float32 {
	if d <= 0 {
		return float32(math.NaN())
	}
	return float32(float64(d) / float64(time.Millisecond))
}
