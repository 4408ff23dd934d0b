package shadow

import (
	"maps"
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// Reports returns what every candidate would have done until now, in their order,
// under the name of the ingress. Shares are 0 to 1, and 0 when nothing was offered.
func (s *Stage) Reports(ingress string) []status.Candidate {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
	out := make([]status.Candidate, len(s.candidates))
	for i, c := range s.candidates {
		c.advance(s.now)
		out[i] = c.report()
		out[i].Ingress, out[i].Lost, out[i].Warming = ingress, s.lost, !s.curve.ready(s.now)
	}
	return out
}

func (c *candidate) report() status.Candidate {
	t := c.counts.recent(int64(c.time))
	share := func(part, whole uint64) float64 {
		if whole == 0 {
			return 0
		}
		return float64(part) / float64(whole)
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	r := status.Candidate{
		Name: c.name, Offered: c.counts.total.offered, Rejected: copied(c.counts.total.reasons), ForNothing: c.counts.total.forNothing,
		RejectedShare: share(t.refused, t.offered), ForNothingShare: min(share(t.forNothing, t.refused), 1),
		EnforcedShare: share(t.enforced, t.offered), P50MS: ms(t.quantile(0.5)), P99MS: ms(t.quantile(0.99)),
		BeyondShare: share(t.beyond, t.admitted), Limit: c.limit(), InFlight: c.inside,
	}
	if c.begun > 0 {
		r.Seconds = time.Duration(int64(c.time) - c.begun).Seconds()
	}
	return r
}

// limit sums up the partitions that were used.
func (c *candidate) limit() (limit int) {
	labels := c.gate.Page(limiter.StatusOptions{Partitions: limiter.NoKeys}).Labels
	for i := range labels {
		if labels[i].Counts.Admitted > 0 {
			limit += labels[i].Limit
		}
	}
	return limit
}

func copied(m map[labels.Reason]uint64) map[labels.Reason]uint64 {
	out := make(map[labels.Reason]uint64, len(m))
	maps.Copy(out, m)
	return out
}
