package observe

import (
	"maps"
	"slices"
	"sync"

	"github.com/admitd/admitd/internal/ingress"
)

// BackendReader tells how the backends of an ingress answer.
type BackendReader func() []ingress.BackendStatus

// WatchBackends exposes how the backends of one ingress answer until stop is
// called. Of two with one name the later is exposed.
func (m *Metrics) WatchBackends(name string, r BackendReader) (stop func()) {
	return m.backends.watch(name, r)
}

// backends collects the metrics of backends.
type backends struct {
	up, failures, unasked family

	mu   sync.Mutex // guards read
	read map[string]*BackendReader
}

func newBackends() *backends {
	return &backends{
		up:       newGauge("backend_up", "0 while the backend answers nothing; absent until it was asked."),
		failures: newCounter("backend_failures_total", "Requests and connections that got no answer from the backend."),
		unasked:  newCounter("backend_unasked_total", "Times that a backend was not asked, since the process had no file descriptor left."),
		read:     map[string]*BackendReader{},
	}
}

func (s *backends) watch(name string, r BackendReader) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read[name] = &r
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.read[name] == &r {
			delete(s.read, name)
		}
	}
}

// collect implements [source].
func (s *backends) collect(b *builder) {
	s.mu.Lock()
	read := maps.Clone(s.read)
	s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(read)) {
		in := pair("ingress", name)
		for _, status := range (*read[name])() {
			backend := pair("backend", status.Address)
			if status.State != ingress.BackendUnknown {
				b.add(&s.up, number(status.State != ingress.BackendDown), backend, in)
			}
			b.add(&s.unasked, float64(status.Unasked), backend, in)
			for _, cause := range ingress.Causes() {
				b.add(&s.failures, float64(status.Failures[cause]), backend, b.label("cause", cause.String()), in)
			}
		}
	}
}
