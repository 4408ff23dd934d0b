package fastpath

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/ingress"
)

// protoHTTP2 is what ALPN calls HTTP/2.
const protoHTTP2 = "h2"

// lastGreeting is how long clients that shake hands as the listener is closed may
// go on with it, so that they are served and not cut off.
const lastGreeting = time.Second

// greeting is a listener that shakes hands by itself: only then is it known whether
// a connection speaks HTTP/2, or gets a connection of the fast path above TLS.
type tlsListener struct {
	inner net.Listener
	s     *Conns

	ready chan net.Conn  // what has shaken hands
	wg    sync.WaitGroup // the handshakes
	over  chan struct{}  // closed when nothing runs any more
	err   error          // why accepting stopped; read it after over
}

// greet begins to accept from inner, until that ends. Whoever shakes hands then has
// lastGreeting to come to an end with it.
func (s *Conns) greet(ctx context.Context, inner net.Listener) *tlsListener {
	g := &tlsListener{inner: inner, s: s, ready: make(chan net.Conn), over: make(chan struct{})}
	go g.acceptAll(context.WithoutCancel(ctx)) // its end closes inner
	return g
}

// Accept implements net.Listener. After Close it returns those that still shook
// hands, and then the listener's error.
func (g *tlsListener) Accept() (net.Conn, error) {
	select {
	case c := <-g.ready:
		return c, nil
	case <-g.over:
		return nil, g.err
	}
}

// Close implements net.Listener. It stops accepting; handshakes go on.
func (g *tlsListener) Close() error { return g.inner.Close() }

// Addr implements net.Listener.
func (g *tlsListener) Addr() net.Addr { return g.inner.Addr() }

// acceptAll accepts until the inner listener ends, and waits for the handshakes.
func (g *tlsListener) acceptAll(ctx context.Context) {
	defer close(g.over)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		c, err := g.inner.Accept()
		if err != nil {
			g.err = err
			break
		}
		g.wg.Go(func() { g.receive(ctx, c) })
	}
	enough := time.AfterFunc(min(lastGreeting, g.s.o.Drain), cancel)
	defer enough.Stop()
	g.wg.Wait()
}

// receive shakes hands with a client, and has it accepted. A panic ends that
// connection and nothing else.
func (g *tlsListener) receive(ctx context.Context, c net.Conn) {
	defer func() {
		if p := recover(); p != nil {
			g.s.o.Log.Error("TLS handshake panicked", slog.String("ingress", g.s.o.Name),
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			g.dismiss(c)
		}
	}()
	ready, err := g.shake(ctx, c)
	if err != nil {
		g.s.o.Log.Debug("TLS handshake failed", slog.String("ingress", g.s.o.Name), slog.String("client", c.RemoteAddr().String()), slog.Any("error", err))
		g.dismiss(c)
		return
	}
	if ready == nil {
		return
	}
	select {
	case g.ready <- ready:
	case <-ctx.Done():
		_ = c.Close() // nobody will take it; TLS would take its time for a farewell
	}
}

// dismiss closes a connection whose handshake failed.
func (g *tlsListener) dismiss(c net.Conn) {
	g.s.o.Door.Count(c, ingress.BadHandshake)
	_ = c.Close()
}

// shake shakes hands over c, and returns what net/http is to get: nothing when it is
// a session of HTTP/2, which begins then.
func (g *tlsListener) shake(ctx context.Context, c net.Conn) (net.Conn, error) {
	sock := newSocket(c)
	if sock != nil {
		c = sock
	}
	b := g.s.bounds.Load()
	if b.TLS == nil { // no longer, and this listener is about to close
		return nil, net.ErrClosed
	}
	if err := c.SetDeadline(time.Now().Add(min(b.HeaderTimeout, b.WriteTimeout))); err != nil {
		return nil, err
	}
	t := tls.Server(c, b.TLS)
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
		if session := g.s.o.Streams.Begin(t, &state, nil); session != nil {
			go session.Run() //nolint:contextcheck // ctx is that of the handshake; requests have their own
		}
		return nil, nil //nolint:nilnil // as said above
	}
	return tlsConn{g.s.newConn(t, sock, &state)}, nil
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

// secured is a connection of the fast path above TLS. What net/http asks it has another answer to.
type tlsConn struct{ *fastConn }

// ConnectionState tells net/http that requests come over TLS, and how.
func (c tlsConn) ConnectionState() tls.ConnectionState { return *c.tls }
