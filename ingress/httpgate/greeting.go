package httpgate

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

// protoHTTP2 is what ALPN calls HTTP/2.
const protoHTTP2 = "h2"

// greeting is a listener that shakes hands by itself: only then is it known whether
// a connection speaks HTTP/2, which is net/http's, or gets a doorstep above TLS.
type greeting struct {
	inner  net.Listener
	s      *Server
	within time.Duration // bounds a handshake

	ready  chan net.Conn // what has shaken hands
	cancel context.CancelFunc
	wg     sync.WaitGroup // the handshakes
	over   chan struct{}  // closed when nothing runs any more
	err    error          // why accepting stopped; read it after over
}

// greet begins to accept from inner. When the listener is closed, or ctx is done,
// whoever still shakes hands is hung up on: no request has come from there.
func (s *Server) greet(ctx context.Context, inner net.Listener) *greeting {
	ctx, cancel := context.WithCancel(ctx)
	o := &s.route.Load().o
	g := &greeting{
		inner: inner, s: s, within: min(o.HeaderTimeout, o.writeTimeout()),
		ready: make(chan net.Conn), cancel: cancel, over: make(chan struct{}),
	}
	go g.acceptAll(ctx)
	return g
}

// Accept implements net.Listener.
func (g *greeting) Accept() (net.Conn, error) {
	select {
	case c := <-g.ready:
		return c, nil
	case <-g.over:
		return nil, g.err
	}
}

// Close implements net.Listener.
func (g *greeting) Close() error {
	g.cancel()
	return g.inner.Close()
}

// Addr implements net.Listener.
func (g *greeting) Addr() net.Addr { return g.inner.Addr() }

// acceptAll accepts until the inner listener ends.
func (g *greeting) acceptAll(ctx context.Context) {
	defer close(g.over)
	defer g.wg.Wait()
	defer g.cancel()
	for {
		c, err := g.inner.Accept()
		if err != nil {
			g.err = err
			return
		}
		g.wg.Go(func() { g.receive(ctx, c) })
	}
}

// receive shakes hands with a client, and has it accepted.
func (g *greeting) receive(ctx context.Context, c net.Conn) {
	ready, err := g.shake(ctx, c)
	if err != nil {
		g.s.log.Debug("TLS handshake failed", slog.String("ingress", g.s.gate.Name()), slog.String("client", c.RemoteAddr().String()), slog.Any("error", err))
		_ = c.Close()
		return
	}
	select {
	case g.ready <- ready:
	case <-ctx.Done():
		_ = ready.Close()
	}
}

// shake shakes hands over c, and returns what net/http is to get.
func (g *greeting) shake(ctx context.Context, c net.Conn) (net.Conn, error) {
	sock := newSocket(c)
	if sock != nil {
		c = sock
	}
	if err := c.SetDeadline(time.Now().Add(g.within)); err != nil {
		return nil, err
	}
	t := tls.Server(c, g.s.tls)
	if err := t.HandshakeContext(ctx); err != nil {
		if odd, ok := errors.AsType[tls.RecordHeaderError](err); ok && odd.Conn != nil && looksLikeHTTP(odd.RecordHeader) {
			_, _ = io.WriteString(odd.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		}
		return nil, err
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	state := t.ConnectionState()
	if state.NegotiatedProtocol == protoHTTP2 {
		if sock != nil {
			sock.gather()
		}
		return t, nil
	}
	return secured{g.s.newDoorstep(t, sock, &state)}, nil
}

// looksLikeHTTP reports whether a client that should speak TLS began so.
func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// offering returns cfg with what HTTP agrees on in the handshake.
func offering(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return nil
	}
	cfg = cfg.Clone()
	for _, proto := range []string{protoHTTP2, "http/1.1"} {
		if !slices.Contains(cfg.NextProtos, proto) {
			cfg.NextProtos = append(slices.Clip(cfg.NextProtos), proto)
		}
	}
	return cfg
}

// secured is a doorstep above TLS. What net/http asks it has another answer to.
type secured struct{ *doorstep }

// ConnectionState tells net/http that requests come over TLS, and how.
func (c secured) ConnectionState() tls.ConnectionState { return *c.tls }
