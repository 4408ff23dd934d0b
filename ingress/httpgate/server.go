package httpgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/ingress/httpgate/doorstep"
	"github.com/admitd/admitd/ingress/httpgate/exchange"
	"github.com/admitd/admitd/ingress/httpgate/streams"
	"github.com/admitd/admitd/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// maxStreams bounds the requests in flight on one HTTP/2 connection.
const maxStreams = 250

// cutGrace is how long answers to nobody have to end after they were cut off.
const cutGrace = time.Second

// Server is the gate for HTTP. It is an http.Handler, and serves listeners by
// itself. It is safe for concurrent use.
type Server struct {
	gate    *limiter.Gate
	route   atomic.Pointer[route]
	door    *ingress.Door
	http    *http.Server
	tunnels *ingress.Strays
	orphans *ingress.Strays // connections to the backend whose callers have left
	health  *ingress.Health
	counts  *ingress.Counts
	steps   *doorstep.Steps // connections of clients
	streams *streams.Server // sessions of HTTP/2
	retries atomic.Uint64
	log     *slog.Logger
	timeout time.Duration // of a drain

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
		gate:   gate, door: ingress.NewDoor(gate.Name(), o.Ingress), tunnels: ingress.NewStrays(), orphans: ingress.NewStrays(),
		log: o.Ingress.Log, timeout: o.Ingress.DrainTimeout, drain: make(chan struct{}), over: make(chan struct{}),
	}
	s.health = ingress.NewHealth().Log(gate.Name(), s.log)
	if err := s.swap(o); err != nil {
		return nil, err
	}
	s.streams = streams.New(streams.Options{
		Name: gate.Name(), Log: s.log, Streams: maxStreams, Visit: func() streams.Visit { return &visit{s: s} }, Handler: s, Counts: s.counts,
	}, o.streams())
	s.steps = doorstep.New(doorstep.Options{
		Name: gate.Name(), Door: s.door, TLS: o.Ingress.TLS, Log: s.log, Drain: s.timeout, Visit: func() doorstep.Visit { return &visit{s: s} },
		Streams: s.streams, Counts: s.counts,
	}, o.bounds())
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: o.HeaderTimeout, IdleTimeout: o.IdleTimeout,
		WriteTimeout:   o.bounds().WriteTimeout,
		MaxHeaderBytes: o.MaxHeader,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		Protocols:      new(http.Protocols),
	}
	s.http.ConnState = doorstep.StateChanged
	s.http.Protocols.SetHTTP1(true)
	return s, nil
}

// Apply replaces the options for requests from now on; those in flight finish
// under the old ones. Idle connections to the backend stay unless what concerns
// them changes: Backend, BackendTLS, ConnectTimeout, MaxIdle, IdleTimeout. Of Options.Ingress only Connections is applied; the
// other options about connections (HeaderTimeout, IdleTimeout, MaxHeader)
// keep their values too. On an error nothing changes.
func (s *Server) Apply(o Options) error {
	old := s.route.Load()
	if err := s.swap(o); err != nil {
		return err
	}
	s.steps.Apply(s.route.Load().o.bounds())
	s.streams.Apply(s.route.Load().o.streams())
	s.door.Apply(o.Ingress.Connections)
	if old.out.Pool != s.route.Load().out.Pool {
		old.out.Pool.CloseIdle()
	}
	return nil
}

// swap compiles o and puts it in force.
func (s *Server) swap(o Options) error {
	o = o.WithDefaults()
	rt := &route{o: o, gate: s.gate, counts: s.counts, worded: newWordings()}
	rt.out = exchange.Route{Options: o.exchange(), Gate: rt, Clock: s.gate, Counts: s.counts, Retries: &s.retries, Tunnels: s.tunnels, Orphans: s.orphans}
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
// and the listener's error when accepting failed.
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
	err := s.http.Serve(s.steps.Listen(ctx, l))
	select {
	case <-s.drain:
	default:
		if ctx.Err() == nil {
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
	return s.Retire(ctx)
}

// Retire is Drain for a server whose gate goes on under another one: requests
// that still arrive here are decided about as before.
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
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.err = fmt.Errorf("%w: ingress %s: %w", ingress.ErrCut, s.gate.Name(), err)
		_ = s.http.Close() // the listener is closed already
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
	s.finishOrphans(ctx)
	s.route.Load().out.Pool.CloseIdle()
}

// finishOrphans waits for answers to nobody, and cuts them off when ctx is done:
// nobody misses them, so that it is no error.
func (s *Server) finishOrphans(ctx context.Context) {
	over := s.orphans.Drain() // not before: a request in flight may become one
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	s.orphans.Cut()
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
