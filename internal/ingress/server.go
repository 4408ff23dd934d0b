package ingress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"
)

// ErrCut is returned by [Server.Drain] when connections had to be closed
// because they did not finish in time.
var ErrCut = errors.New("ingress: connections closed before they finished")

// cutGrace is how long handlers have to return after their connections were
// closed under them.
const cutGrace = time.Second

// Handler speaks a protocol on one connection.
type Handler interface {
	// ServeConn owns c and closes it. ctx is cancelled when the drain begins:
	// finish what is in progress, start nothing new, close cleanly, return.
	// After the drain deadline the server closes c under the handler.
	ServeConn(ctx context.Context, c net.Conn)
}

// A Sleeper is a [Handler] that gives the goroutine of a connection back while
// nothing happens on it.
type Sleeper interface {
	// Begin is ServeConn for a server that is told when it must go on. It may
	// speak to the client already. What it returns serves c until that is over, or until nothing happens. In the latter
	// case it calls wake when something does, from any goroutine, and is called
	// again on another one. wake does not block; nil = it serves to the end.
	Begin(ctx context.Context, c net.Conn, wake func()) (serve func() (over bool))
}

// Server runs a [Handler] on every connection that comes through its door.
type Server struct {
	*Door
	handler Handler

	mu       sync.Mutex // guards the fields below; never held across a wait
	conns    map[*conn]struct{}
	draining bool
	cuts     int           // connections closed before they finished
	drain    chan struct{} // closed when the drain begins
	over     chan struct{} // closed when no connection is left, or nobody waits for them any more
}

// NewServer returns a server. name is the ingress's, for logs.
func NewServer(name string, h Handler, o Options) *Server {
	s := &Server{
		Door: NewDoor(name, o), handler: h, conns: map[*conn]struct{}{},
		drain: make(chan struct{}), over: make(chan struct{}),
	}
	s.refuser, _ = h.(Refuser)
	return s
}

// Serve accepts from ln, which it closes, until the server is drained or ctx
// is done; the latter begins a drain. It returns nil when the drain is over
// and the listener's error when accepting failed. Several listeners may be
// served at once. A listener that somebody else closes is no failure: its
// connections are served on until the drain is over.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := s.listen(ctx, ln, func(c *conn) { s.start(ctx, c) })
	defer func() { _ = l.Close() }() // a second Close finds it closed
	stop := context.AfterFunc(ctx, func() { _ = s.Drain(context.WithoutCancel(ctx)) })
	defer stop()

	select {
	case <-l.over:
		if err := l.failed(); err != nil {
			return fmt.Errorf("ingress: accept: %w", err)
		}
		select {
		case <-s.drain:
		case <-ctx.Done():
		}
	case <-s.drain:
	}
	_ = l.Close()                         // and nothing is on its way from the door to a handler
	unbegun := stop() && ctx.Err() != nil // else the drain has begun already
	cancel()                              // tells the handlers
	if unbegun {
		_ = s.Drain(context.WithoutCancel(ctx))
	}
	<-s.over
	return nil
}

// welcome starts a goroutine for a connection that came in, unless the drain has
// begun.
func (s *Server) start(ctx context.Context, c *conn) {
	if !s.enlist(c) {
		_ = c.Close()
		return
	}
	go s.serveConn(ctx, c)
}

// Drain stops accepting, cancels the handlers' contexts and waits until they
// have returned. When ctx is done or Options.DrainTimeout has passed it closes
// what is left and returns an error that matches [ErrCut]. Further calls wait
// for the same end.
func (s *Server) Drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.DrainTimeout)
	defer cancel()
	return s.Retire(ctx)
}

// Retire is Drain without a timeout of its own: only ctx bounds it.
func (s *Server) Retire(ctx context.Context) error {
	s.mu.Lock()
	if !s.draining {
		s.draining = true
		close(s.drain)
		if len(s.conns) == 0 {
			s.endLocked()
		}
	}
	s.mu.Unlock()

	select {
	case <-s.over:
		return s.drained()
	case <-ctx.Done():
	}
	s.cut()
	grace := time.NewTimer(cutGrace)
	defer grace.Stop()
	select {
	case <-s.over:
	case <-grace.C:
		s.o.Log.Error("handlers run on after their connections were closed", slog.String("ingress", s.name))
		s.mu.Lock()
		s.endLocked()
		s.mu.Unlock()
	}
	return s.drained()
}

// drained returns what the drain came to.
func (s *Server) drained() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cuts == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of ingress %s", ErrCut, s.cuts, s.name)
}

// visit is a connection with what serves it.
type servedConn struct {
	s     *Server
	c     *conn
	serve func() (over bool)
}

// serveConn runs the handler on one connection.
func (s *Server) serveConn(ctx context.Context, c *conn) {
	v := &servedConn{s: s, c: c}
	v.serve = func() bool { return s.begin(ctx, v) }
	v.run()
}

// run serves until the connection is over, or sleeps. A panic ends that
// connection and nothing else.
func (v *servedConn) run() {
	over := true
	defer func() {
		if !over {
			return
		}
		defer v.s.dismiss(v.c)
		if p := recover(); p != nil {
			v.s.o.Log.Error("connection handler panicked", slog.String("ingress", v.s.name),
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	over = v.serve()
}

// begin speaks TLS, if that is asked for, and begins with the handler.
func (s *Server) begin(ctx context.Context, v *servedConn) (over bool) {
	var c net.Conn = v.c
	if conf := s.rules.Load().tls; conf != nil {
		var err error
		if c, err = Secure(ctx, c, conf, preludeTimeout); err != nil {
			return true
		}
	}
	h, ok := s.handler.(Sleeper)
	if !ok {
		s.handler.ServeConn(ctx, c)
		return true
	}
	v.serve = h.Begin(ctx, c, func() { go v.run() })
	return v.serve()
}

// enlist adds c to the connections to wait for, unless the drain has begun.
func (s *Server) enlist(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	c.served = true
	s.conns[c] = struct{}{}
	return true
}

// dismiss closes c, in case its handler did not, and forgets it.
func (s *Server) dismiss(c *conn) {
	_ = c.Close()
	c.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.draining && len(s.conns) == 0 {
		s.endLocked()
	}
}

// endLocked says, once, that the drain is over.
func (s *Server) endLocked() {
	select {
	case <-s.over:
	default:
		close(s.over)
	}
}

// cut closes every connection.
func (s *Server) cut() {
	s.mu.Lock()
	left := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		left = append(left, c)
	}
	s.cuts += len(left)
	s.mu.Unlock()
	for _, c := range left {
		_ = c.Close()
	}
}
