package lab

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/lab/scenario"
)

// LiveBackend is the backend of a scenario in real time, for any protocol, and an
// HTTP handler: the same model with the same changes of health, which count from its first
// request. With it, a scenario can be played live against a gate and compared
// with what virtual time says. It is safe for concurrent use.
type LiveBackend struct {
	s    *scenario.Scenario
	wake chan struct{} // has a value when the next event may be another one

	mu    sync.Mutex // guards the fields below
	w     *World
	b     *Backend
	start time.Time // of the first request; zero = there was none
}

// NewLiveBackend returns the backend of a scenario with exactly one variant. It
// works until ctx is done.
func NewLiveBackend(ctx context.Context, s *scenario.Scenario, seed uint64) *LiveBackend {
	w := newWorld(seed)
	l := &LiveBackend{s: s, wake: make(chan struct{}, 1), w: w, b: newBackend(w, s.Backend)}
	for _, h := range s.HealthSteps() {
		w.At(int64(h.At), func() { l.b.set(h.State(&s.Backend)) })
	}
	go l.run(ctx)
	return l
}

// liveJob is a request that somebody may wait for.
type liveJob struct {
	done    chan struct{} // closed when it has ended
	refused bool          // it waited for a worker for too long; set before done is closed
}

// served implements [requester].
func (j *liveJob) served() { close(j.done) }

// failed implements [requester].
func (j *liveJob) failed() {
	j.refused = true
	close(j.done)
}

// ServeHTTP answers when the model has. When the caller has gone, the work goes
// on or stops, as the scenario says.
func (l *LiveBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.Work(r.Context()) {
		_, _ = io.WriteString(w, "served\n") // the caller may be gone
	} else if r.Context().Err() == nil {
		http.Error(w, "no worker is free", http.StatusServiceUnavailable)
	}
}

// Work is one request, over whatever protocol: it returns when the model has
// served it, and true. It returns false at once when the queue is full, when no
// worker was free in time, and when ctx is done, which tells the model that the
// caller has gone.
func (l *LiveBackend) Work(ctx context.Context) bool {
	wait := &liveJob{done: make(chan struct{})}
	j := l.submit(wait)
	if j == nil {
		return false
	}
	select {
	case <-wait.done:
		return !wait.refused
	case <-ctx.Done():
		l.hangUp(j)
		return false
	}
}

// submit hands a request to the model.
func (l *LiveBackend) submit(by *liveJob) *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.start.IsZero() {
		l.start = time.Now()
	}
	l.advanceLocked()
	j := l.b.submit(1, by)
	l.changed()
	return j
}

// hangUp tells the model that a caller has gone.
func (l *LiveBackend) hangUp(j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advanceLocked()
	l.b.hangUp(j)
	l.changed()
}

// changed has the loop look again.
func (l *LiveBackend) changed() {
	select {
	case l.wake <- struct{}{}:
	default: // it will
	}
}

// advanceLocked plays what is due, each event at its own time, so that a late
// timer costs no capacity, and returns how long the next one is away; negative =
// there is none.
func (l *LiveBackend) advanceLocked() (next time.Duration) {
	if l.start.IsZero() {
		return -1
	}
	now := time.Since(l.start)
	l.w.run(now)
	at, ok := l.w.events.Next()
	if !ok {
		return -1
	}
	return time.Duration(at) - now
}

// run plays the model until ctx is done.
func (l *LiveBackend) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		l.mu.Lock()
		next := l.advanceLocked()
		l.mu.Unlock()
		var due <-chan time.Time
		if next >= 0 {
			timer.Reset(next)
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-due:
		}
	}
}
