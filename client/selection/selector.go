package selection

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of [Options].
const (
	DefaultLocalThreshold = 15 * time.Millisecond
	DefaultTimeout        = 30 * time.Second
	DefaultMaxWaiting     = 10_000
)

// Options tune a [Selector] or a [Serial]. The zero value is ready for use.
type Options struct {
	// LocalThreshold is how much slower than the nearest suitable server a
	// server may be. 0 = [DefaultLocalThreshold], negative = the nearest only.
	LocalThreshold time.Duration
	// Timeout is how long a selection may wait; an earlier deadline of the
	// context counts. 0 = [DefaultTimeout], negative = never wait.
	Timeout time.Duration
	// MaxWaiting is how many selections may wait at once; one more fails at
	// once. 0 = [DefaultMaxWaiting].
	MaxWaiting int
	// LeastLoaded prefers, of the two servers drawn, the one that reported
	// more headroom. Where one does not report or both report the same, the
	// count of operations decides, as it does without the option.
	LeastLoaded bool
	// Filter is the application's own rule; nil = none.
	Filter Filter
	// Log receives the four messages of a selection; nil = no logs.
	Log *slog.Logger
	// Rand returns uniform random bits and is safe for concurrent use; nil =
	// math/rand/v2.
	Rand func() uint64
}

func (o Options) withDefaults() Options {
	if o.LocalThreshold == 0 {
		o.LocalThreshold = DefaultLocalThreshold
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxWaiting <= 0 {
		o.MaxWaiting = DefaultMaxWaiting
	}
	if o.Rand == nil {
		o.Rand = rand.Uint64
	}
	return o
}

// Selector picks servers from a [View] for many goroutines at once. Make one
// with [New].
type Selector struct {
	view    *View
	o       Options
	waiting atomic.Int64
	scratch sync.Pool // of *[]*Server, so that a selection need not allocate
}

// New returns a selector over v. Several selectors may share a view; they then
// share its counts of operations.
func New(v *View, o Options) *Selector {
	return &Selector{
		view: v, o: o.withDefaults(),
		scratch: sync.Pool{New: func() any { return new([]*Server) }},
	}
}

// View returns the view that the selector picks from.
func (s *Selector) View() *View { return s.view }

// Selected is a server that was picked, and the operation counted on it until
// [Selected.Done]. It is a value: do not copy it after use, nor share it
// between goroutines. The zero value has no server.
type Selected struct {
	Server *Server // as it was described when picked; read only
	view   *View
	open   bool
}

// Done ends the operation, whatever became of it. Only the first call counts.
func (s *Selected) Done() {
	if s.open {
		s.open = false
		s.Server.ops.Add(-1)
	}
}

// Failed is Done for an operation that ended in a network error: the server
// did not answer, so it is taken out of selection until it does, and the
// monitor asks at once. Refusals are not network errors: a server that refuses
// is alive.
func (s *Selected) Failed(err error) {
	if !s.open {
		return
	}
	s.Done()
	s.view.failed(s.Server, err)
	s.view.RequestCheck()
}

// Select returns a server for op, waiting for one when none suits. The error
// is an [*Error]. The caller calls Done, or Failed, on what it got.
func (s *Selector) Select(ctx context.Context, op Operation) (Selected, error) {
	talk := s.o.Log != nil
	st := s.view.state.Load()
	if talk {
		s.o.logStarted(ctx, &op, st.topology)
	}
	if err := ctx.Err(); err != nil { // a server would be wasted on an operation that is over
		return Selected{}, s.o.fail(ctx, failure{op: op, topology: st.topology, cause: err})
	}
	picked, err := s.pick(st.topology, &op)
	if err == nil && picked.Server == nil {
		return s.wait(ctx, op, st)
	}
	if err != nil {
		return Selected{}, s.o.fail(ctx, failure{op: op, topology: st.topology, cause: err})
	}
	if talk {
		s.o.logSucceeded(ctx, &op, st.topology, picked.Server)
	}
	return picked, nil
}

// wait is the rest of Select: it looks again whenever the picture changes.
func (s *Selector) wait(ctx context.Context, op Operation, st *state) (Selected, error) {
	start := time.Now()
	give := func(cause error) (Selected, error) {
		return Selected{}, s.o.fail(ctx, failure{op: op, topology: st.topology, cause: cause, waited: time.Since(start)})
	}
	if s.o.Timeout < 0 {
		s.view.RequestCheck()
		return give(nil)
	}
	if s.waiting.Add(1) > int64(s.o.MaxWaiting) {
		s.waiting.Add(-1)
		return give(ErrTooManyWaiting)
	}
	defer s.waiting.Add(-1)
	s.o.logWaiting(ctx, &op, st.topology, remaining(ctx, s.o.Timeout))
	timer := time.NewTimer(s.o.Timeout)
	defer timer.Stop()
	for {
		s.view.RequestCheck()
		select {
		case <-st.changed:
		case <-timer.C:
			return give(nil)
		case <-ctx.Done():
			return give(ctx.Err())
		}
		st = s.view.state.Load()
		picked, err := s.pick(st.topology, &op)
		if err != nil {
			return give(err)
		}
		if picked.Server != nil {
			if s.o.Log != nil {
				s.o.logSucceeded(ctx, &op, st.topology, picked.Server)
			}
			return picked, nil
		}
	}
}

// pick chooses from one picture. No server and no error means: wait.
func (s *Selector) pick(t *Topology, op *Operation) (Selected, error) {
	scratch, _ := s.scratch.Get().(*[]*Server)
	defer s.scratch.Put(scratch)
	found, err := t.appendSuitable((*scratch)[:0], op, s.o.Filter)
	if err != nil || len(found) == 0 {
		return Selected{}, err
	}
	*scratch = found // keep what it grew to
	server := s.o.choose(inWindow(found, s.o.LocalThreshold))
	server.ops.Add(1)
	return Selected{Server: server, view: s.view, open: true}, nil
}

// choose draws two servers and returns the less busy. Two, not all: a server
// that just became the best would otherwise get everything at once.
func (o *Options) choose(servers []*Server) *Server {
	if len(servers) == 1 {
		return servers[0]
	}
	bits := o.Rand()
	i := below(uint32(bits), len(servers))
	j := below(uint32(bits>>32), len(servers)-1)
	if j >= i {
		j++
	}
	a, b := servers[i], servers[j]
	if o.LeastLoaded && a.Load.Reported && b.Load.Reported && a.Load.Headroom != b.Load.Headroom {
		if a.Load.Headroom > b.Load.Headroom {
			return a
		}
		return b
	}
	// On a tie the first is as random as the second.
	if a.Operations() <= b.Operations() {
		return a
	}
	return b
}

// below maps 32 uniform bits to [0, n). The bias is below n / 2^32.
func below(bits uint32, n int) int {
	return int(uint64(bits) * uint64(n) >> 32)
}

// remaining returns the time that a selection may still take.
func remaining(ctx context.Context, timeout time.Duration) time.Duration {
	timeout = max(timeout, 0)
	if deadline, ok := ctx.Deadline(); ok {
		return max(min(timeout, time.Until(deadline)), 0)
	}
	return timeout
}
