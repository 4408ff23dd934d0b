package limiter

import (
	"math"
	"sync"
	"time"

	"github.com/admitd/admitd/labels"
)

// Bounds of hints.
const (
	minRetryAfter  = time.Millisecond
	maxRetryAfter  = 30 * time.Second
	minSpread      = 10 * time.Millisecond
	maxSpread      = 10 * time.Second
	minBaseBackoff = 100 * time.Millisecond // the base that drivers start from
	maxBaseBackoff = 5 * time.Second
)

// flow measures how fast a partition admits and rejects, over about the last
// second. It is brought up to date by those who ask for a hint.
type flow struct {
	mu                 sync.Mutex // guards the fields below; only ever tried, or held briefly
	at                 int64      // monotonic ns of the last measurement
	admitted, rejected uint64     // counts then
	admits, rejects    float64    // per second
}

// Hint computes when a request of the given cost may be tried again: the time
// until there are tokens for it, or until a permit is likely to be free, plus a
// random share of the time that the gate needs for everyone it refused in the
// last second, so that they come back at the rate at which it can serve them.
func (r *Rejection) Hint(cost float64) Hint {
	if r.part == nil || r.Reason == labels.CostExceedsBurst {
		return Hint{}
	}
	g := r.part.gate
	now := g.clock.Now()
	admits, rejects := r.part.rates(now)
	req := Request{Cost: cost}
	var wait time.Duration
	if r.Reason == labels.RequestRate {
		wait = max(g.table.Load().bucket.Wait(now, req.cost()), r.part.spec.Load().bucket.Wait(now, req.cost()))
	} else {
		// One permit ends every 1/admits seconds, and who waits goes first.
		wait = seconds(float64(r.part.queued.Load()+1) / max(admits, 1))
	}
	spread := min(max(seconds(rejects/max(admits, 1)), minSpread, wait/2), maxSpread)
	jitter := time.Duration(float64(spread) * g.fraction())
	after := min(max(wait+jitter, minRetryAfter), maxRetryAfter)
	g.lastHint.Store(int64(after))
	return Hint{
		RetryAfter:  after,
		BaseBackoff: min(max(time.Duration(float64(minBaseBackoff)*(1+rejects/max(admits, 1))), minBaseBackoff), maxBaseBackoff),
	}
}

// fraction returns a uniform value in [0, 1).
func (g *Gate) fraction() float64 { return float64(g.rand()>>11) / (1 << 53) }

// seconds converts s, saturating.
func seconds(s float64) time.Duration {
	if !(s < math.MaxInt64/1e9) {
		return math.MaxInt64
	}
	return time.Duration(s * 1e9)
}

// rates returns the partition's admissions and rejections per second.
func (p *partition) rates(now int64) (admits, rejects float64) {
	f := &p.flow
	f.mu.Lock()
	defer f.mu.Unlock()
	elapsed := now - f.at
	if f.at != 0 && elapsed < int64(rateSampleMinimum) && elapsed >= 0 && f.admits > 0 {
		return f.admits, f.rejects
	}
	admitted, rejected := p.tally.granted(), p.counts.rejected.sum()
	if f.at == 0 || elapsed <= 0 || elapsed > 10*int64(rateSampleMinimum) {
		f.at, f.admitted, f.rejected = now, admitted, rejected
		f.admits, f.rejects = 0, 0
		return 0, 0
	}
	if elapsed >= int64(rateSampleMinimum)/10 {
		f.admits = float64(admitted-f.admitted) * 1e9 / float64(elapsed)
		f.rejects = float64(rejected-f.rejected) * 1e9 / float64(elapsed)
	}
	if elapsed >= int64(rateSampleMinimum) {
		f.at, f.admitted, f.rejected = now, admitted, rejected
	}
	return f.admits, f.rejects
}
