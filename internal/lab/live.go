package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/openloop"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// maxLiveOutstanding bounds the requests in flight of a live run; one more
// counts as missed.
const maxLiveOutstanding = 20_000

// Live drives a running gate with a scenario in real time: open loop, arrivals
// scheduled ahead, latencies counted from the moment at which a request was due.
type Live struct {
	// Scenario with exactly one variant; see [scenario.Scenario.Variant].
	Scenario *scenario.Scenario
	// Capacity of the backend, requests per second, > 0: what a load of 1 means.
	Capacity float64
	// Seed of the arrivals.
	Seed uint64
	// Send makes one request, retries included. It is called by many goroutines.
	Send func(ctx context.Context, key string) openloop.Sent
	// Health is told when the scenario changes the backend's health, which the
	// lab cannot do itself; nil = nobody.
	Health func(scenario.HealthStep)
	// Limit returns the limit in force, for the result; nil = it is not known.
	Limit func() int
	// Progress is told now and then how far the run is; nil = nobody.
	Progress func(elapsed time.Duration)
}

// LiveResult is what came of a live run.
type LiveResult struct {
	Result *measure.Result
	// Scheduled sends, and those that were late by more than 20 ms or not made.
	Scheduled, Missed int64
}

// Void reports that the schedule was not kept, so that the run proves nothing.
func (r *LiveResult) Void() bool {
	return float64(r.Missed) > openloop.MaxMissedShare*float64(r.Scheduled)
}

// liveRun is one live run.
type liveRun struct {
	l           *Live
	start       time.Time
	outstanding atomic.Int64
	wg          sync.WaitGroup
	out         LiveResult // counts are written by the scheduler alone

	mu    sync.Mutex // guards tally
	tally *virtualTally
}

// Run drives the load until every request has ended or ctx is done.
func (l *Live) Run(ctx context.Context) (*LiveResult, error) {
	if !(l.Capacity > 0) {
		return nil, fmt.Errorf("lab: the capacity must be > 0 requests/s (%v)", l.Capacity)
	}
	if len(l.Scenario.Bursts) > 0 || l.Scenario.Clock != "" || l.Scenario.ReloadEvery > 0 || l.Scenario.Gates > 1 || l.Scenario.Callers.Count > 0 {
		return nil, errors.New("lab: bursts, callers that wait, clock faults, reloads and several gates are for virtual time only")
	}
	r := &liveRun{l: l, start: time.Now(), tally: newVirtualTally(l.Scenario)}
	for i := range r.tally.windows {
		r.tally.windows[i].Capacity = l.Capacity
	}
	err := r.schedule(ctx)
	r.wg.Wait()
	r.out.Result = r.tally.result("live", l.Seed)
	return &r.out, err
}

// schedule sends every request when it is due. The arrivals are those of
// virtual time, scaled to the capacity, played in advance by the same code.
func (r *liveRun) schedule(ctx context.Context) error {
	s := r.l.Scenario
	w := newWorld(r.l.Seed)
	g := newGame(w, s, r.l.Seed)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var failed error
	g.arrive = func(key string, noisy bool) {
		if failed == nil {
			patience := max(g.patience(), time.Duration(s.Clients.Deadline))
			failed = r.send(ctx, timer, &liveSend{at: time.Duration(w.now), patience: patience, key: key, noisy: noisy})
		}
	}
	g.capacity = r.l.Capacity
	for _, h := range s.HealthSteps() {
		w.At(int64(h.At), func() {
			if failed == nil && r.l.Health != nil {
				failed = r.await(ctx, timer, time.Duration(w.now))
				r.l.Health(h)
			}
		})
	}
	g.plan()
	g.every(watchEvery, func() {
		if failed == nil && r.l.Limit != nil {
			failed = r.await(ctx, timer, time.Duration(w.now))
			r.watch(w.now)
		}
	})
	g.every(time.Second, func() {
		if failed == nil && r.l.Progress != nil {
			failed = r.await(ctx, timer, time.Duration(w.now))
			r.l.Progress(time.Duration(w.now))
		}
	})
	w.run(time.Duration(s.For))
	return failed
}

// watch notes the limit in force.
func (r *liveRun) watch(now int64) {
	limit := r.l.Limit()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.watch(now, limit, 0, 0)
}

// await waits for a moment of the run.
func (r *liveRun) await(ctx context.Context, timer *time.Timer, at time.Duration) error {
	wait := time.Until(r.start.Add(at))
	if wait <= 0 {
		return ctx.Err()
	}
	timer.Reset(wait)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// liveSend is a request that is to be sent.
type liveSend struct {
	at       time.Duration // since the start of the run
	patience time.Duration
	key      string
	noisy    bool
}

// send makes one request when it is due.
func (r *liveRun) send(ctx context.Context, timer *time.Timer, q *liveSend) error {
	if err := r.await(ctx, timer, q.at); err != nil {
		return err
	}
	due := r.start.Add(q.at)
	r.out.Scheduled++
	full := r.outstanding.Load() >= maxLiveOutstanding
	if full || time.Since(due) > openloop.Late {
		r.out.Missed++
	}
	if full {
		return nil
	}
	r.outstanding.Add(1)
	r.wg.Go(func() {
		defer r.outstanding.Add(-1)
		rctx, cancel := context.WithDeadline(ctx, due.Add(q.patience))
		defer cancel()
		sent := r.l.Send(rctx, q.key)
		latency := time.Since(due)
		if sent.Attempts > 1 {
			latency = sent.Last
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tally.step(int64(q.at)).Attempts += sent.Attempts
		r.tally.ended(&ending{born: int64(q.at), latency: latency, tries: sent.Attempts, noisy: q.noisy, verdict: sent.Verdict})
	})
	return nil
}
