package httpgate

import (
	"maps"
	"net"
	"slices"
	"sync"
)

// strays keeps track of connections that no handler of net/http answers for:
// those of clients that switched protocols, and those to the backend that carry
// answers to nobody.
type strays struct {
	mu       sync.Mutex // guards the fields below; never held across a wait
	open     map[net.Conn]struct{}
	draining bool
	over     chan struct{} // closed when draining and none is open
}

// newStrays returns an empty set.
func newStrays() *strays {
	return &strays{open: map[net.Conn]struct{}{}, over: make(chan struct{})}
}

// add takes c in, unless no new ones are wanted.
func (s *strays) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.open[c] = struct{}{}
	return true
}

// remove forgets c.
func (s *strays) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.checkLocked()
}

// swap has c stand for old, which is in.
func (s *strays) swap(old, c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, old)
	s.open[c] = struct{}{}
}

// drain wants no new ones and returns a channel that is closed when there are
// none.
func (s *strays) drain() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.checkLocked()
	return s.over
}

// checkLocked closes over when it is time to.
func (s *strays) checkLocked() {
	if !s.draining || len(s.open) > 0 {
		return
	}
	select {
	case <-s.over:
	default:
		close(s.over)
	}
}

// all returns those that are open.
func (s *strays) all() []net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// count returns how many are open.
func (s *strays) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// cut closes every one and returns how many there were.
func (s *strays) cut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.Close()
	}
	return len(s.open)
}
