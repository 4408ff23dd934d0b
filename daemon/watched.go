package daemon

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// watched are the servers that a collector reads when somebody scrapes. The
// zero value is none. It is safe for concurrent use.
type watched[S comparable] struct {
	mu      sync.Mutex // guards servers
	servers map[string]S
}

// watch reads an ingress until stop is called. When an ingress is replaced the
// new one is watched before the old one stops.
func (w *watched[S]) watch(ingress string, s S) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.servers == nil {
		w.servers = map[string]S{}
	}
	w.servers[ingress] = s
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.servers[ingress] == s {
			delete(w.servers, ingress)
		}
	}
}

// byIngress returns those that are watched now.
func (w *watched[S]) byIngress() map[string]S {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.servers)
}

// counters returns counters by ingress and labels.
func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"ingress"}, labels...))
}
