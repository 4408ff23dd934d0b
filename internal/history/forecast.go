package history

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/admitd/admitd/limiter"
)

// Forecast says what would be different without the gate, or with it where it only
// looks on; "" = nothing, or there is too little to say so.
func (b *Book) Forecast(name string, now time.Time) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.ingresses[name]
	if r == nil || len(r.window) < 2 || now.Sub(r.at) > stale {
		return ""
	}
	p := &r.pace
	switch {
	case r.status.Mode == limiter.Shadow && p.would > least:
		return fmt.Sprintf("Enforced, it would refuse %s/s of %s/s.", number(p.would), number(max(p.received, p.would)))
	case r.status.Mode != limiter.Enforce || p.refused <= least:
		return ""
	}
	if _, failing := r.judgeBackends(now); failing {
		return "" // more of what fails
	}
	text := fmt.Sprintf("Switched off, it would pass %s/s more: %s/s in all", number(p.refused), number(p.admitted+p.refused))
	if base := p.reference(); base > 0 && (p.rtt > slowBy*base || p.base > base+base/2) {
		return fmt.Sprintf("%s, to a backend that takes %s times as long as on calm days: what it was given then says nothing.", text, times(max(p.rtt, p.base).Seconds()/base.Seconds()))
	}
	most := r.series.most("admitted")
	if over := (p.admitted+p.refused)/most - 1; most > least && over > 0 {
		return fmt.Sprintf("%s, %s over the most that the backend was given in the last half hour (%s/s).", text, percentOver(over), number(most))
	}
	return text + ", which the backend was given before."
}

// percentOver words by how much something is more, which may be many times.
func percentOver(share float64) string {
	if share >= 9.995 {
		return fmt.Sprintf("%.0f times", share)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// calm is over how many rows the most is a mean of: a burst of one second is not
// what a backend can do.
const calm = 5

// most returns the highest figure of a column, over some seconds.
func (s *Series) most(column string) (most float64) {
	columns := Columns()
	c := slices.Index(columns, column)
	if c < 0 {
		return 0
	}
	for i := calm; i <= len(s.at); i++ {
		sum := 0.0
		for j := i - calm; j < i; j++ {
			sum += float64(s.values[j*len(columns)+c])
		}
		if mean := sum / calm; !math.IsNaN(mean) {
			most = max(most, mean)
		}
	}
	return most
}

// Sentence says in a line why the limit of a partition of an ingress is what it is, in
// times that do not change every second; "" when it was not read yet.
func (b *Book) Sentence(name string, of *limiter.PartitionStatus) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.ingresses[name]
	if r == nil || of.Number >= len(r.roll.rows)*rollRows {
		return ""
	}
	p := r.roll.at(of.Number)
	if !p.is(of.Name, of.Key) {
		return ""
	}
	return p.sentence(b, name, r)
}
