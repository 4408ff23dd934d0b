package daemon

import (
	"net"
	"sync"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/observe"
)

// standing is what runs, and the configuration that it runs by. It is safe for
// concurrent use; who changes it sees to the order.
type runningState struct {
	mu       sync.RWMutex // guards the fields below; never held across a wait
	cfg      *config.Config
	asRead   *config.Config // before it was changed at run time
	changes  []admin.Change // cfg against asRead
	readings uint64         // how often cfg was read anew
	running  map[string]*runningIngress
	draining bool
	// leavingSoon: the end is coming, everything is still served.
	leavingSoon bool
}

// front returns a running ingress, nil when there is none of that name.
func (s *runningState) front(name string) *runningIngress {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.running[name]
}

// inForce returns the configuration in force, and how often one was read.
func (s *runningState) inForce() (*config.Config, uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.cfg, s.readings
}

// keep has cfg told as the one in force, which differs from the one applied in
// what cannot change at run time.
func (s *runningState) keep(cfg *config.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg, s.asRead, s.changes = cfg, cfg, nil
}

// stand has next run by cfg from now on, and returns what ran before. anew says
// that cfg was read, not patched.
func (s *runningState) stand(next map[string]*runningIngress, cfg *config.Config, anew bool) (before map[string]*runningIngress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.running
	s.running, s.cfg = next, cfg
	if anew {
		s.readings++
	}
	if anew || s.asRead == nil {
		s.asRead = cfg
	}
	s.changes = changesOf(s.asRead, cfg)
	return before
}

// ingress returns the settings of an ingress that runs, nil when it does not.
func (s *runningState) ingress(name string) *config.Ingress {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.cfg == nil {
		return nil
	}
	for i := range s.cfg.Ingresses {
		if s.cfg.Ingresses[i].Name == name {
			return &s.cfg.Ingresses[i]
		}
	}
	return nil
}

// holder returns the listener that runs on the ingress's address, nil when
// there is none. It may be another ingress's, which was renamed or has another
// address from now on. Port 0 means a port of one's own.
func (s *runningState) holder(in *config.Ingress) net.Listener {
	_, port, _ := net.SplitHostPort(in.Listen) // the configuration was validated
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.cfg == nil {
		return nil
	}
	for i := range s.cfg.Ingresses {
		old := &s.cfg.Ingresses[i]
		if old.Listen == in.Listen && (port != "0" || old.Name == in.Name) {
			return s.running[old.Name].ln
		}
	}
	return nil
}

// hold notes what a front listens on from now on, and returns what it listened on
// before.
func (s *runningState) hold(f *runningIngress, ln net.Listener) (before net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, f.ln = f.ln, ln
	return before
}

// address returns where an ingress listens, nil when it does not run or listen.
func (s *runningState) address(name string) net.Addr {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if f := s.running[name]; f != nil && f.ln != nil {
		return f.ln.Addr()
	}
	return nil
}

// onPort returns which ingress runs on the port of in, and where; "" = none does.
func (s *runningState) onPort(in *config.Ingress) (name, addr string) {
	_, port, _ := net.SplitHostPort(in.Listen) // the configuration was validated
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.running {
		if f.ln == nil {
			continue
		}
		if _, held, _ := net.SplitHostPort(f.ln.Addr().String()); held == port {
			return f.name, f.ln.Addr().String()
		}
	}
	return "", ""
}

// leave notes that the end is coming: clients and balancers are told to go
// elsewhere, and are still served.
func (s *runningState) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leavingSoon = true
}

// isLeaving reports whether the end is coming or has begun.
func (s *runningState) isLeaving() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.leavingSoon || s.draining
}

// isDraining reports whether the end has begun.
func (s *runningState) isDraining() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.draining
}

// gates lists the gates for the summary of refusals.
func (s *runningState) gates() []observe.StatusReader {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]observe.StatusReader, 0, len(s.running))
	for _, f := range s.running {
		list = append(list, f.gate)
	}
	return list
}
