package openloop

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/admitd/admitd/internal/lab/measure"
)

// Late is how far behind its schedule a request may be sent before it
// counts as missed.
const Late = 20 * time.Millisecond

// MaxMissedShare is the share of missed sends up to which a run counts.
const MaxMissedShare = 0.001

// Sent is how one request went.
type Sent struct {
	Verdict  measure.Verdict
	Attempts int // how often it was sent
	// Last is how long the last attempt took, when there were several: the
	// waits between attempts are the client's own.
	Last time.Duration
}

// Load sends requests at a given rate whatever the answers are, as real
// users do: arrivals are scheduled ahead, and latency counts from the moment at
// which a request was due, not from when it could be sent. Of a request that
// was refused and sent again, the latency is that of the attempt that counted.
type Load struct {
	// Rate of arrivals per second, > 0.
	Rate float64
	// For is how long arrivals go on.
	For time.Duration
	// Timeout of one request, retries included; 0 = 1 s.
	Timeout time.Duration
	// Objective is the latency up to which an answer is good; 0 = 100 ms.
	Objective time.Duration
	// WarmUp is left out of the tally.
	WarmUp time.Duration
	// MaxOutstanding bounds the requests in flight; one more counts as missed.
	// 0 = 20,000.
	MaxOutstanding int
	// Seed of the Poisson arrivals.
	Seed uint64
	// Send makes one request, retries included, and tells how it went.
	Send func(ctx context.Context) Sent
}

// Tally counts what became of the requests. Its methods may be called while the
// load runs.
type Tally struct {
	objective time.Duration

	scheduled, missed               atomic.Int64
	answered, good, refused, failed atomic.Int64
	inSpan                          atomic.Int64 // good ones that came while load was offered
	attempts, outstanding           atomic.Int64

	mu        sync.Mutex // guards the fields below
	latencies *hdrhistogram.Histogram
	span      time.Duration // that was counted
}

// Snapshot is a [Tally] at one moment.
type Snapshot struct {
	Scheduled, Missed               int64
	Answered, Good, Refused, Failed int64
	Attempts                        int64
	Outstanding                     int64
}

// Snapshot reads the counts.
func (t *Tally) Snapshot() Snapshot {
	return Snapshot{
		Scheduled: t.scheduled.Load(), Missed: t.missed.Load(), Answered: t.answered.Load(), Good: t.good.Load(),
		Refused: t.refused.Load(), Failed: t.failed.Load(), Attempts: t.attempts.Load(), Outstanding: t.outstanding.Load(),
	}
}

// Void reports that more than [MaxMissedShare] of the schedule was not kept, so that
// the run proves nothing.
func (t *Tally) Void() bool {
	s := t.Snapshot()
	return float64(s.Missed) > MaxMissedShare*float64(s.Scheduled)
}

// Quantile returns the latency of answered requests at q in [0, 1], 0 when there
// are none.
func (t *Tally) Quantile(q float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Duration(t.latencies.ValueAtQuantile(q*100)) * time.Microsecond
}

// Goodput returns the good answers per second of the time that was counted.
// It counts answers by when they came: those after the last arrival do not
// count, since the backend was no longer under load.
func (t *Tally) Goodput() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.span <= 0 {
		return 0
	}
	return float64(t.inSpan.Load()) / t.span.Seconds()
}

// AttemptsPerRequest returns how often a request was sent on average.
func (t *Tally) AttemptsPerRequest() float64 {
	n := t.answered.Load() + t.refused.Load() + t.failed.Load()
	if n == 0 {
		return 0
	}
	return float64(t.attempts.Load()) / float64(n)
}

// NewTally returns an empty tally for a load with the given objective.
func NewTally(objective time.Duration) *Tally {
	if objective <= 0 {
		objective = 100 * time.Millisecond
	}
	return &Tally{
		objective: objective,
		latencies: hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3),
	}
}

// Run sends the load and counts into t until every request has ended.
func (l Load) Run(ctx context.Context, t *Tally) {
	if l.Timeout <= 0 {
		l.Timeout = time.Second
	}
	if l.MaxOutstanding <= 0 {
		l.MaxOutstanding = 20_000
	}
	rng := rand.New(rand.NewPCG(l.Seed, 1)) //nolint:gosec // a load wants reproducible arrivals
	start := time.Now()
	due := start
	timer := time.NewTimer(0)
	defer timer.Stop()
	var wg sync.WaitGroup
	for {
		due = due.Add(time.Duration(rng.ExpFloat64() / l.Rate * float64(time.Second)))
		if due.Sub(start) >= l.For {
			break
		}
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				wg.Wait()
				return
			case <-timer.C:
			}
		}
		l.dispatch(ctx, t, arrival{due: due, begin: start.Add(l.WarmUp), end: start.Add(l.For)}, &wg)
	}
	wg.Wait()
	t.mu.Lock()
	t.span += l.For - l.WarmUp
	t.mu.Unlock()
}

// arrival is one request of the schedule.
type arrival struct {
	due        time.Time
	begin, end time.Time // of the time that counts
}

// counts reports whether the request is part of the tally.
func (a arrival) counts() bool { return !a.due.Before(a.begin) }

// dispatch starts one request, unless it cannot be sent in time.
func (l Load) dispatch(ctx context.Context, t *Tally, a arrival, wg *sync.WaitGroup) {
	if a.counts() {
		t.scheduled.Add(1)
	}
	full := t.outstanding.Load() >= int64(l.MaxOutstanding)
	if a.counts() && (full || time.Since(a.due) > Late) {
		t.missed.Add(1)
	}
	if full {
		return
	}
	t.outstanding.Add(1)
	wg.Go(func() {
		defer t.outstanding.Add(-1)
		rctx, cancel := context.WithDeadline(ctx, a.due.Add(l.Timeout))
		defer cancel()
		sent := l.Send(rctx)
		latency := time.Since(a.due)
		if sent.Attempts > 1 {
			latency = sent.Last
		}
		now := time.Now()
		if sent.Verdict == measure.Answered && latency <= t.objective && now.After(a.begin) && now.Before(a.end) {
			t.inSpan.Add(1)
		}
		if a.counts() {
			t.count(sent, latency)
		}
	})
}

// count notes the end of one request.
func (t *Tally) count(s Sent, latency time.Duration) {
	t.attempts.Add(int64(s.Attempts))
	t.mu.Lock()
	defer t.mu.Unlock()
	switch s.Verdict {
	case measure.Answered:
		t.answered.Add(1)
		_ = t.latencies.RecordValue(max(latency.Microseconds(), 1)) // cut at the histogram's bound
		if latency <= t.objective {
			t.good.Add(1)
		}
	case measure.Refused:
		t.refused.Add(1)
	default:
		t.failed.Add(1)
	}
}
