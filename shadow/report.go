package shadow

import (
	"time"

	"github.com/admitd/admitd/labels"
)

// Report is what one candidate would have done. Shares are of the last five
// minutes, counts of all time since the candidate began. Latencies are in
// milliseconds, from the request to the answer.
type Report struct {
	Name    string `json:"name"`
	Ingress string `json:"ingress"`
	// Warming is true until enough was seen of the backend; nothing is counted
	// before.
	Warming bool    `json:"warming"`
	Seconds float64 `json:"seconds"` // that it has played

	Offered  uint64                   `json:"offered"`
	Rejected map[labels.Reason]uint64 `json:"rejected"`   // without zeros
	Nothing  uint64                   `json:"forNothing"` // of these, answered in time in truth

	RejectedShare float64 `json:"rejectedShare"`   // of what was offered
	NothingShare  float64 `json:"forNothingShare"` // of what it would have rejected
	EnforcedShare float64 `json:"enforcedShare"`   // of what was offered, rejected in truth
	P50MS         float64 `json:"p50MS"`           // of what it would have admitted; 0 = nothing
	P99MS         float64 `json:"p99MS"`
	// Beyond is the share of what it would have admitted while more was in
	// flight than the backend was ever seen with: that part is a guess.
	Beyond   float64 `json:"beyondShare"`
	Limit    int     `json:"limit"` // over all partitions
	InFlight int     `json:"inFlight"`
	Lost     uint64  `json:"lost"` // records that did not fit into the ring
}

// Reports returns what every candidate would have done, in their order.
func (s *Stage) Reports(ingress string) []Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
	out := make([]Report, len(s.candidates))
	for i, c := range s.candidates {
		c.advance(s.now)
		out[i] = c.report()
		out[i].Ingress, out[i].Lost, out[i].Warming = ingress, s.lost, !s.curve.ready(s.now)
	}
	return out
}

// Rejected returns what every candidate would have rejected since it began, by
// its name.
func (s *Stage) Rejected() map[string]map[labels.Reason]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]map[labels.Reason]uint64, len(s.candidates))
	for _, c := range s.candidates {
		out[c.name] = copied(c.counts.total.reasons)
	}
	return out
}

func (c *candidate) report() Report {
	t := c.counts.recent(int64(c.time))
	share := func(part, whole uint64) float64 {
		if whole == 0 {
			return 0
		}
		return float64(part) / float64(whole)
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	_, limit := c.gate.Load()
	r := Report{
		Name: c.name, Offered: c.counts.total.offered, Rejected: copied(c.counts.total.reasons), Nothing: c.counts.total.forNothing,
		RejectedShare: share(t.refused, t.offered), NothingShare: min(share(t.forNothing, t.refused), 1),
		EnforcedShare: share(t.enforced, t.offered), P50MS: ms(t.quantile(0.5)), P99MS: ms(t.quantile(0.99)),
		Beyond: share(t.beyond, t.admitted), Limit: int(limit), InFlight: c.inside,
	}
	if c.begun > 0 {
		r.Seconds = time.Duration(int64(c.time) - c.begun).Seconds()
	}
	return r
}

func copied(m map[labels.Reason]uint64) map[labels.Reason]uint64 {
	out := make(map[labels.Reason]uint64, len(m))
	for k, n := range m {
		out[k] = n
	}
	return out
}
