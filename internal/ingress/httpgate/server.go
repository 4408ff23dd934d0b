package httpgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/fastpath"
	"github.com/admitd/admitd/internal/ingress/httpgate/h2"
	"github.com/admitd/admitd/internal/ingress/httpgate/roundtrip"
	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// maxStreams bounds the requests in flight on one HTTP/2 connection.
const maxStreams = 250

// cutGrace is how long answers to nobody have to end after they were cut off.
const cutGrace = time.Second

// Server is the gate for HTTP. It is an http.Handler, and serves listeners by
// itself. It is safe for concurrent use.
type Server struct {
	gate      *limiter.Gate
	route     atomic.Pointer[route]
	door      *ingress.Door
	https     atomic.Pointer[[]*http.Server] // the last is for listeners that are served from now on
	tunnels   *ingress.UnansweredConns
	abandoned *ingress.UnansweredConns // connections to the backend whose callers have left
	health    *ingress.Health
	counts    *ingress.Counts
	steps     *fastpath.Conns // connections of clients
	streams   *h2.Server      // sessions of HTTP/2
	retries   atomic.Uint64
	log       *slog.Logger
	timeout   time.Duration // of a drain

	once  sync.Once
	drain chan struct{} // closed when the drain begins
	over  chan struct{} // closed when it is over
	err   error         // what it came to; read it after over
}

// New returns a server that asks gate. Its errors name every option that is
// wrong.
func New(gate *limiter.Gate, o Options) (*Server, error) {
	o = o.WithDefaults()
	if o.Ingress.Counts == nil {
		o.Ingress.Counts = &ingress.Counts{}
	}
	s := &Server{
		counts: o.Ingress.Counts,
		gate:   gate, door: ingress.NewDoor(gate.Name(), o.Ingress), tunnels: ingress.NewUnansweredConns(), abandoned: ingress.NewUnansweredConns(),
		log: o.Ingress.Log, timeout: o.Ingress.DrainTimeout, drain: make(chan struct{}), over: make(chan struct{}),
	}
	s.health = ingress.NewHealth().Log(gate.Name(), s.log)
	if err := s.swap(o); err != nil {
		return nil, err
	}
	s.streams = h2.New(h2.Options{
		Name: gate.Name(), Log: s.log, Streams: maxStreams, Visit: func() h2.Handler { return &visit{s: s} }, Handler: s, Counts: s.counts,
	}, o.streams())
	s.steps = fastpath.New(fastpath.Options{
		Name: gate.Name(), Door: s.door, Log: s.log, Drain: s.timeout, Visit: func() fastpath.Handler { return &visit{s: s} },
		Streams: s.streams, Counts: s.counts,
	}, o.bounds())
	s.https.Store(&[]*http.Server{s.newHTTP(o.bounds())})
	return s, nil
}

// newHTTP returns a server of net/http with these bounds, which it reads for as long
// as it has connections: others take another server.
func (s *Server) newHTTP(b fastpath.Bounds) *http.Server {
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: b.HeaderTimeout, IdleTimeout: b.IdleTimeout,
		WriteTimeout:   b.WriteTimeout,
		MaxHeaderBytes: b.MaxHeader,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		Protocols:      new(http.Protocols),
		ConnState:      fastpath.StateChanged,
	}
	h.Protocols.SetHTTP1(true)
	return h
}

// latest returns the server of net/http for listeners that are served from now on.
func (s *Server) latest() *http.Server {
	all := *s.https.Load()
	return all[len(all)-1]
}

// Apply replaces the options for requests from now on; those in flight finish
// under the old ones. Idle connections to the backend stay unless what concerns
// them changes: Backend, BackendTLS, ConnectTimeout, MaxIdle, IdleTimeout. Of Options.Ingress only Connections,
// ProxyProtocol, ProxyFrom and TLS are applied, for connections that come from now on.
// HeaderTimeout, IdleTimeout, MaxHeader, and whether clients speak TLS, change whole
// for connections of listeners that are served from now on: call [Server.Serve] with
// another listener on the same socket, and close the one before. It must not be called
// by several goroutines at once. On an error nothing changes.
func (s *Server) Apply(o Options) error {
	old := s.route.Load()
	if err := s.swap(o); err != nil {
		return err
	}
	b := s.route.Load().o.bounds()
	s.steps.Apply(b)
	if h := s.latest(); h.MaxHeaderBytes != b.MaxHeader || h.ReadHeaderTimeout != b.HeaderTimeout || h.IdleTimeout != b.IdleTimeout {
		all := append(slices.Clone(*s.https.Load()), s.newHTTP(b))
		s.https.Store(&all)
	}
	s.streams.Apply(s.route.Load().o.streams())
	s.door.Apply(o.Ingress)
	if old.out.Pool != s.route.Load().out.Pool {
		old.out.Pool.CloseIdle()
	}
	return nil
}

// Limit replaces the limits on connections, as [ingress.Door.Limit] does.
func (s *Server) Limit(c ingress.Connections) { s.door.Limit(c) }

// swap compiles o and puts it in force.
func (s *Server) swap(o Options) error {
	o = o.WithDefaults()
	rt := &route{o: o, gate: s.gate, counts: s.counts, worded: newWordings()}
	rt.out = roundtrip.Route{Options: o.exchange(), Gate: rt, Clock: s.gate, Counts: s.counts, Retries: &s.retries, Tunnels: s.tunnels, Abandoned: s.abandoned}
	var errID, errUp, errStatus error
	rt.id, errID = newIdentifier(&o)
	if old := s.route.Load(); old != nil && old.out.Pool.WillDo(o.upstream()) {
		rt.out.Pool = old.out.Pool
	} else {
		rt.out.Pool, errUp = upstream.New(o.upstream())
	}
	switch o.Status {
	case 0, http.StatusTooManyRequests, http.StatusServiceUnavailable, 462:
	default:
		errStatus = fmt.Errorf("httpgate: status of a rejection must be 429, 503 or 462 (%d)", o.Status)
	}
	if err := errors.Join(errID, errUp, errStatus); err != nil {
		return err
	}
	s.health.Keep(o.Backend)
	rt.out.Backend = s.health.Of(o.Backend)
	s.route.Store(rt)
	return nil
}

// Serve accepts from ln, which it closes, until the server is drained or ctx
// is done; the latter begins a drain. It returns nil when the drain is over
// and the listener's error when accepting failed. A listener that somebody else closes
// is no failure: its connections are served on until the drain is over.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	l := s.door.Listen(ctx, ln)
	defer func() { _ = l.Close() }() // it is closed already, or accepting failed
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-s.drain: // or retired, and the gate is not to be drained
		default:
			_ = s.Drain(context.WithoutCancel(ctx))
		}
	})
	defer stop()
	err := s.latest().Serve(s.steps.Listen(ctx, l))
	select {
	case <-s.drain:
	default:
		if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("httpgate: accept: %w", err)
		}
	}
	<-s.over
	return nil
}

// Drain refuses new requests with the reason draining, closes idle
// connections, and waits for what is in flight. When ctx is done or the drain
// timeout has passed it closes what is left and returns an error that matches
// [ingress.ErrCut]. Further calls wait for the same end.
func (s *Server) Drain(ctx context.Context) error {
	s.gate.Drain()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.Retire(ctx)
}

// Retire is Drain for a server whose gate goes on under another one: requests
// that still arrive here are decided about as before, and only ctx bounds it.
func (s *Server) Retire(ctx context.Context) error {
	s.once.Do(func() {
		close(s.drain)
		s.steps.Rest()
		s.streams.Rest()
		go s.finish(ctx)
	})
	<-s.over
	return s.err
}

// finish waits for the end of the drain, or makes it.
func (s *Server) finish(ctx context.Context) {
	defer close(s.over)
	var ended sync.WaitGroup
	all := *s.https.Load()
	errs := make([]error, len(all))
	for i, h := range all {
		ended.Go(func() {
			if errs[i] = h.Shutdown(ctx); errs[i] != nil {
				_ = h.Close() // the listener is closed already
			}
		})
	}
	ended.Wait()
	if err := errors.Join(errs...); err != nil {
		s.err = fmt.Errorf("%w: ingress %s: %w", ingress.ErrCut, s.gate.Name(), err)
	}
	select {
	case <-s.tunnels.Drain(): // not before: a request in flight may become one
	case <-ctx.Done():
		if n := s.tunnels.Cut(); n > 0 && s.err == nil {
			s.err = fmt.Errorf("%w: %d tunnels of ingress %s", ingress.ErrCut, n, s.gate.Name())
		}
	}
	if n := s.steps.Finish(ctx) + s.streams.Finish(ctx); n > 0 && s.err == nil {
		s.err = fmt.Errorf("%w: %d requests of ingress %s", ingress.ErrCut, n, s.gate.Name())
	}
	s.finishAbandoned(ctx)
	s.route.Load().out.Pool.CloseIdle()
}

// finishAbandoned waits for answers to nobody, and cuts them off when ctx is done:
// nobody misses them, so that it is no error.
func (s *Server) finishAbandoned(ctx context.Context) {
	over := s.abandoned.Drain() // not before: a request in flight may become one
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	s.abandoned.Cut()
	grace := time.NewTimer(cutGrace)
	defer grace.Stop()
	select {
	case <-over: // their permits have ended
	case <-grace.C:
	}
}

// Status returns the server's counts.
func (s *Server) Status() Status {
	up := s.route.Load().out.Pool
	return Status{
		Connections: s.door.Status(), Tunnels: s.tunnels.Count(), BackendIdle: up.Idle(),
		BackendDials: up.Dials(), Retries: s.retries.Load(), Backends: s.health.Status(time.Now()),
	}
}
