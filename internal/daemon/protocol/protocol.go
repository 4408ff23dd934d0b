// Package protocol holds what the daemon knows of each protocol, as one value: how
// an ingress of the configuration becomes the server of its gate, what a reload
// changes in place, and which metrics are its own. Nothing else in the daemon
// asks which protocol it has before it.
package protocol

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/descriptors"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Protocol is what the daemon knows of a protocol. There is one literal for
// each, in a file of its own; nothing else here asks which protocol it has
// before it.
type Protocol struct {
	Name string // as the configuration spells it

	// Open registers the protocol's metrics, once per daemon, and returns what
	// builds the server of an ingress. A server that is built serves nothing yet.
	Open func(k *Kit) (build func(in *config.Ingress, g *limiter.Gate) (*Server, error), err error)
	// Relistens reports whether a change of an ingress is in force only for
	// connections of a listener that is served after it; nil = none but that of the
	// address is.
	Relistens func(old, next *config.Ingress) bool
	// ALPN lists what TLS offers to agree on; nil = nothing.
	ALPN []string
	// BeginsTLS says that the protocol asks for TLS inside a plain connection:
	// its server is given the keys, and connections are accepted plain.
	BeginsTLS bool
	// Identify builds what turns a request that a proxy asks about into what the
	// gate reads, by the rules of an ingress; nil = the protocol is not HTTP.
	Identify func(k *Kit, in *config.Ingress, g *limiter.Gate) (func(*http.Request) (limiter.Request, string), error)
	// Shown returns a key of a partition as the status shows it, of the real one or of
	// that; nil = keys are shown as they are.
	Shown func(in *config.Ingress, key string) string
	// MaxKey bounds the keys of partitions, in bytes; longer ones are known by their
	// hash. 0 = there is no such bound.
	MaxKey int
	// Bypass is the error of a probe that must keep an ingress from starting,
	// for its clients would walk around the gate; nil = there is none.
	Bypass error
}

// Server is a protocol's server. Functions that may be nil say so.
type Server struct {
	// Serve accepts from ln until the server is drained or ctx is done.
	Serve func(ctx context.Context, ln net.Listener) error
	// Several listeners may be served at once; one that somebody else closes is no
	// failure, and its connections are served on.
	//
	// Drain stops accepting and lets what is in progress finish, until ctx is done. It
	// does not touch the gate, which another server may go on with.
	Drain func(ctx context.Context) error
	// Prepare builds what a configuration that was read says of the ingress, from its
	// files too.
	Prepare func(in *config.Ingress) (Change, error)
	// Set puts in force what of an ingress may change at run time and is not the
	// gate's. It reads no file and cannot fail.
	Set func(in *config.Ingress)
	// Connections counts the connections.
	Connections func() ingress.Status
	// Backends tells how the backends answer.
	Backends func() []ingress.BackendStatus
	// Ungated counts the open connections of which nothing is admitted, since
	// their encryption ends at the backend; nil = there are none.
	Ungated func() int64
	// Details are the protocol's own facts for the status; nil = there are none.
	Details func() any
	// Probe asks the backend, before anybody listens, what it is; nil = there is
	// nothing to ask.
	Probe func(ctx context.Context) error
	// Watch exposes the protocol's own gauges; nil = there are none.
	Watch func() (stop func())
}

// Change is what a configuration changes in a server that runs.
type Change struct {
	// Apply puts it in force, which cannot fail. Nothing that is open is interrupted.
	Apply func()
	// Probe asks the backend, before that, what it is; nil = there is nothing to ask.
	Probe func(ctx context.Context) error
}

// All lists what ships.
func All() []*Protocol {
	return []*Protocol{protocolHTTP(), protocolMongoDB(), protocolPostgres(), protocolPulsar()}
}

// Kit is what the daemon lends to protocols.
type Kit struct {
	Log   *slog.Logger
	Clock *clock.Guard
	// Descriptors is the account of what clients of all ingresses take.
	Descriptors *descriptors.Account
	// Counts returns what an ingress counts over all its servers; nil = each counts
	// for itself.
	Counts func(ingress string) *ingress.Counts
	// Register adds collectors to the daemon's metrics.
	Register func(all ...prometheus.Collector) error
	// Hello describes an ingress to clients that select servers, and whether it
	// serves.
	Hello func(ingress string) (labels.Hello, bool)
	// Own returns what is told how long the gate of an ingress itself took.
	Own func(ingress string) func(time.Duration)
	// Askers returns where an ingress tells who sends its requests.
	TopKeys func(ingress string) *topkeys.Board
	// HTTPObserver returns who follows the requests of an HTTP ingress; nil =
	// nobody.
	HTTPObserver func(ingress string) httpgate.Observer
}

// counts returns what the servers of an ingress count in.
func (k *Kit) counts(name string) *ingress.Counts {
	if k.Counts == nil {
		return &ingress.Counts{}
	}
	return k.Counts(name)
}

// Opened is a protocol of which servers can be built.
type Opened struct {
	*Protocol

	Build func(in *config.Ingress, g *limiter.Gate) (*Server, error)
}

// OpenAll opens all protocols, by name.
func OpenAll(k *Kit, all []*Protocol) (map[string]Opened, error) {
	out := make(map[string]Opened, len(all))
	for _, p := range all {
		build, err := p.Open(k)
		if err != nil {
			return nil, fmt.Errorf("protocol %s: %w", p.Name, err)
		}
		out[p.Name] = Opened{p, build}
	}
	return out, nil
}

// Replaces reports whether a change of an ingress takes a gate and a server of their
// own. Every other is taken over by those that run.
func Replaces(old, next *config.Ingress) bool {
	serves := func(in *config.Ingress) bool { return in.Listen != "" || in.Backend != "" }
	return old.Protocol != next.Protocol || serves(old) != serves(next)
}

// NeedsListener reports whether a change is in force only for connections of a
// listener that is served after it.
func (p *Protocol) NeedsListener(old, next *config.Ingress) bool {
	return old.Listen != next.Listen || p.Relistens != nil && p.Relistens(old, next)
}

// Wire returns the server of a protocol that serves connection by connection,
// behind a door and TLS. open returns what handles them; it is given the TLS
// towards clients where the protocol begins it itself, and nil otherwise. A
// reload gives the door its new options and calls change, which prepares what else
// there is; nil = there is nothing.
func (p *Protocol) Wire(k *Kit, in *config.Ingress, open func(*tls.Config) (ingress.Handler, error), change func(in *config.Ingress, own *tls.Config) (Change, error)) (*Server, error) {
	serverOptions, own, err := p.serverOptions(k, in)
	if err != nil {
		return nil, err
	}
	h, err := open(own)
	if err != nil {
		return nil, err
	}
	serverOptions.PerClient = 2 // each has a connection of its own to the backend
	s := ingress.NewServer(in.Name, h, serverOptions)
	return &Server{
		Serve: s.Serve, Drain: s.Retire, Connections: s.Status,
		Set: func(in *config.Ingress) { s.Limit(connections(&in.Connections)) },
		Prepare: func(in *config.Ingress) (c Change, err error) {
			next, own, err := p.serverOptions(k, in)
			if err != nil {
				return c, err
			}
			if change != nil {
				if c, err = change(in, own); err != nil {
					return c, err
				}
			}
			then := c.Apply
			c.Apply = func() {
				s.Apply(next)
				if then != nil {
					then()
				}
			}
			return c, nil
		},
	}, nil
}

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
