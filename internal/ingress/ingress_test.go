package ingress_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
)

// events is an Observer that lets a test wait for what happens.
type events struct {
	opened, closed chan struct{}
	refused        chan ingress.Refusal
}

func newEvents() *events {
	return &events{make(chan struct{}, 4096), make(chan struct{}, 4096), make(chan ingress.Refusal, 4096)}
}

func (e *events) Opened()                   { e.opened <- struct{}{} }
func (e *events) Closed()                   { e.closed <- struct{}{} }
func (e *events) Refused(r ingress.Refusal) { e.refused <- r }

// handlerFunc makes a Handler of a function.
type handlerFunc func(ctx context.Context, c net.Conn)

func (f handlerFunc) ServeConn(ctx context.Context, c net.Conn) { f(ctx, c) }

// echo answers every byte until the client leaves or the drain begins.
func echo(ctx context.Context, c net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	defer c.Close()
	_, _ = io.Copy(c, c)
}

// loopback returns a listener on a free port.
func loopback(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// start serves h and drains it at the end of the test.
func start(t *testing.T, h ingress.Handler, o ingress.Options) (*ingress.Server, string) {
	t.Helper()
	ln := loopback(t)
	s := ingress.NewServer("test", h, o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.WithoutCancel(t.Context()), ln) }()
	t.Cleanup(func() {
		if err := s.Drain(context.WithoutCancel(t.Context())); err != nil && !errors.Is(err, ingress.ErrCut) {
			t.Errorf("Drain: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if open := s.Status().Open; open != 0 {
			t.Errorf("%d connections open after the drain", open)
		}
	})
	return s, ln.Addr().String()
}

// dial connects and closes at the end of the test.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

// answers reports whether the server echoes on c.
func answers(c net.Conn) bool {
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err == nil
}

// pipeListener is a net.Listener whose connections are pipes, which obey the
// fake time of a bubble.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// dial returns the client's end.
func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// safeBuffer takes a log from many goroutines.
type safeBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
