package ingress

import (
	"maps"
	"net"
	"slices"
	"sync"
)

// UnansweredConns keeps track of connections that no handler of net/http answers for: those
// of clients that are served before it or have switched protocols, and those to the
// backend that carry answers to nobody. It is safe for concurrent use.
type UnansweredConns struct {
	mu       sync.Mutex // guards the fields below; never held across a wait
	open     map[net.Conn]struct{}
	draining bool
	over     chan struct{} // closed when draining and none is open
}

// NewUnansweredConns returns an empty set.
func NewUnansweredConns() *UnansweredConns {
	return &UnansweredConns{open: map[net.Conn]struct{}{}, over: make(chan struct{})}
}

// Add takes c in, unless no new ones are wanted.
func (s *UnansweredConns) Add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.open[c] = struct{}{}
	return true
}

// Remove forgets c.
func (s *UnansweredConns) Remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.checkLocked()
}

// Swap has c stand for old, which is in.
func (s *UnansweredConns) Swap(old, c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, old)
	s.open[c] = struct{}{}
}

// Drain wants no new ones and returns a channel that is closed when there are
// none.
func (s *UnansweredConns) Drain() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.checkLocked()
	return s.over
}

// checkLocked closes over when it is time to.
func (s *UnansweredConns) checkLocked() {
	if !s.draining || len(s.open) > 0 {
		return
	}
	select {
	case <-s.over:
	default:
		close(s.over)
	}
}

// All returns those that are open.
func (s *UnansweredConns) All() []net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// Count returns how many are open.
func (s *UnansweredConns) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Cut closes every one and returns how many there were.
func (s *UnansweredConns) Cut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.Close()
	}
	return len(s.open)
}
