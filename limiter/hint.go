package limiter

import (
	"time"

	"github.com/admitd/admitd/labels"
)

// Bounds of hints.
const (
	minRetryAfter  = time.Millisecond
	maxRetryAfter  = 30 * time.Second
	minBaseBackoff = time.Millisecond
	maxBaseBackoff = 5 * time.Second // drivers double it twice, and cap at 10 s
	// elsewhere bounds the base where other gates may be idle: it is what drivers
	// start from by themselves.
	elsewhere = 100 * time.Millisecond
	// A client doubles the base before its first retry and its second, so that a
	// quarter of its deadline leaves time for both.
	deadlineShare = 4
)

// Hint computes when the refused request may be tried again. The base of the
// backoff is the slot that the request gets among those who were refused and
// have not come back yet, as far apart as the capacity allows that it lacked.
// It stays below a quarter of the caller's deadline, and small where clients may
// turn to other gates. The wait is near that base, and at least the time until
// there are tokens. At their bounds both are spread downwards.
func (r *Rejection) Hint(req Request) Hint {
	if r.part == nil || r.Reason == labels.CostExceedsBurst {
		return Hint{}
	}
	p, g := r.part, r.part.gate
	now := g.clock.Now()
	wait, pace := r.lack(now, &req)
	most := maxBaseBackoff
	if g.roster.table.Load().policy.Gates > 1 {
		most = elsewhere
	}
	if req.Deadline > 0 {
		most = min(most, req.Deadline/deadlineShare)
	}
	base := g.spread(p.crowd.join(now, pace), most, 8)
	// Half the base to one and a half: as long as a driver sleeps on average.
	after := time.Duration(float64(base) * (0.5 + g.fraction()))
	after = g.spread(max(after, wait), maxRetryAfter, 2)
	g.lastHint.Store(int64(max(after, minRetryAfter)))
	return Hint{RetryAfter: max(after, minRetryAfter), BaseBackoff: max(base, minBaseBackoff)}
}

// spread returns d, or where that reaches most a random value below most, by
// at most its nth part.
func (g *Gate) spread(d, most time.Duration, n float64) time.Duration {
	if d < most {
		return d
	}
	return time.Duration(float64(most) * (1 - g.fraction()/n))
}

// lack returns how long until the tokens of the refused request are there, and
// the pace at which the capacity that it lacked serves such requests. What is
// the gate's is shared by the partitions that lack it.
func (r *Rejection) lack(now int64, req *Request) (wait time.Duration, _ pace) {
	p := r.part
	spec := p.spec.Load()
	sharers := 1.0
	if r.Limit != labels.ByPartition {
		sharers = p.gate.census.sharers(now, p)
	}
	if r.Reason != labels.RequestRate {
		limit := p.limit(spec)
		if r.Limit == labels.ByTotal {
			limit = spec.total
		}
		return 0, pace{sharers * p.crowd.held() / float64(max(limit, 1)), permitShare}
	}
	b := spec.own
	if r.Limit == labels.ByIngress {
		b = spec.ingress
	}
	if b == nil { // the rate was lifted meanwhile
		return 0, pace{1, rateShare}
	}
	// A retry needs the tokens of both buckets, whichever was empty.
	wait = max(spec.ingress.Wait(now, req.cost()), spec.own.Wait(now, req.cost()))
	returns := minReturns * req.cost() / b.Burst()
	return wait, pace{sharers * req.cost() * 1e9 / b.Rate().PerSecond, min(max(returns, rateShare), maxShare)}
}

// fraction returns a uniform value in [0, 1).
func (g *Gate) fraction() float64 { return float64(g.rand()>>11) / (1 << 53) }
