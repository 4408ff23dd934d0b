package selection

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/labels"
)

// View holds the present picture of one deployment, counts the operations in
// progress per server and wakes whoever waits for the picture to change. It is
// safe for concurrent use; reading it takes no lock. Make one with [NewView].
type View struct {
	state atomic.Pointer[state] // replaced under mu, read without

	mu       sync.Mutex    // guards the fields below; never held across a wait
	requests chan struct{} // closed when an immediate check is wanted
	asked    atomic.Bool   // whether requests is closed
}

// state ties a picture to the signal that it is no longer the present one, so
// that a change between looking and waiting cannot be missed.
type state struct {
	topology *Topology
	changed  chan struct{} // closed when the picture is replaced
}

// NewView returns a view of t. It takes over t.
func NewView(t *Topology) *View {
	v := &View{requests: make(chan struct{})}
	v.state.Store(&state{topology: counted(&Topology{}, t), changed: make(chan struct{})})
	return v
}

// Topology returns the present picture. Its Servers are shared: read only.
func (v *View) Topology() *Topology { return v.state.Load().topology }

// Changed returns a channel that is closed as soon as the picture that
// [View.Topology] returned last is replaced or any server was asked again.
// Take it before looking.
func (v *View) Changed() <-chan struct{} { return v.state.Load().changed }

// Replace shows t from now on, for programs that find their servers in their
// own way. It takes over t. Servers that keep their address keep their count
// of operations.
func (v *View) Replace(t *Topology) {
	v.change(func(*Topology) *Topology { return t })
}

// Answered takes in the hello of a server: its description, the members it
// names, and one round trip for the average. at is when it came, by the
// client's clock. A server that is not in the topology is ignored.
func (v *View) Answered(address string, h labels.Hello, roundTrip time.Duration, at time.Time) {
	v.change(func(t *Topology) *Topology {
		address = strings.ToLower(address)
		before := t.Server(address)
		if before == nil {
			return t
		}
		// A server that was unknown has no round trip: the average starts anew.
		return t.with(describe(address, &h, before.RTT.Add(roundTrip), at))
	})
}

// MarkUnknown takes a server out of selection until it answers again, because
// of err. A server that is not in the topology is ignored.
func (v *View) MarkUnknown(address string, err error) {
	v.change(func(t *Topology) *Topology { return t.without(strings.ToLower(address), err) })
}

// without is [Topology.with] for a server that does not answer. A load
// balancer is never polled, so nothing would bring it back: it stays.
func (t *Topology) without(address string, err error) *Topology {
	s := t.Server(address)
	if s == nil || t.Type == LoadBalanced {
		return t
	}
	return t.with(s.unknown(err))
}

// failed is MarkUnknown for an error of an operation on a server as it was
// described then. If the server answered since, the error is old news.
func (v *View) failed(then *Server, err error) {
	v.change(func(t *Topology) *Topology {
		if now := t.Server(then.Address); now == nil || now.LastUpdate.After(then.LastUpdate) {
			return t
		}
		return t.without(then.Address, err)
	})
}

// RequestCheck asks the monitor to poll every server now, which it does at
// most every [MinHeartbeat]. It never blocks.
func (v *View) RequestCheck() {
	if v.asked.Load() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.asked.Swap(true) {
		close(v.requests)
	}
}

// checkRequested returns a channel that is closed by the next RequestCheck. A
// watcher takes it before it asks its server: a request that arrives while it
// asks must count, because the answer may be older than the request.
func (v *View) checkRequested() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asked.Swap(false) {
		v.requests = make(chan struct{})
	}
	return v.requests
}

// change replaces the picture and wakes everyone, also when the new picture
// equals the old: waiters want to know that a check completed.
func (v *View) change(edit func(*Topology) *Topology) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.state.Load()
	next := counted(before.topology, edit(before.topology))
	v.state.Store(&state{topology: next, changed: make(chan struct{})})
	close(before.changed)
}

// counted gives every server in next its counter: the one its address had in
// before, or a new one. Descriptions are copied when they need one.
func counted(before, next *Topology) *Topology {
	if !slices.ContainsFunc(next.Servers, func(s *Server) bool { return s.ops == nil }) {
		return next
	}
	known := make(map[string]*atomic.Int64, len(before.Servers))
	for _, s := range before.Servers {
		known[s.Address] = s.ops
	}
	whole := *next
	whole.Servers = slices.Clone(next.Servers)
	for i, s := range whole.Servers {
		if s.ops != nil {
			continue
		}
		mine := *s
		if mine.ops = known[s.Address]; mine.ops == nil {
			mine.ops = new(atomic.Int64)
		}
		whole.Servers[i] = &mine
	}
	return &whole
}
