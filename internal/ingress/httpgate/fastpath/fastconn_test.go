package fastpath_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/fastpath"
	"github.com/admitd/admitd/internal/testkit/keypair"
)

// A client that has gone before it could be refused costs its connection, and no
// more. Closing it from within the wait for it waited for itself: each such client
// kept a goroutine, a descriptor and a place among connections.maxOpen for good, so
// that ten thousand of them shut an ingress.
func TestARefusalThatNobodyTakes(t *testing.T) {
	t.Run("plain", func(t *testing.T) { refuseNobody(t, nil, nil) })
	t.Run("TLS", func(t *testing.T) {
		server, client := keypair.Ends(t, "gate")
		refuseNobody(t, server, client)
	})
}

func refuseNobody(t *testing.T, server, client *tls.Config) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	told := &telling{Listener: ln, came: make(chan *net.TCPConn, 1), closed: make(chan struct{})}
	steps := fastpath.New(fastpath.Options{
		Name: "orders", Door: ingress.NewDoor("orders", ingress.Options{}), Log: slog.New(slog.DiscardHandler), Drain: time.Second,
		Visit: func() fastpath.Handler { return departed{told.came} },
	}, fastpath.Bounds{MaxHeader: 1 << 10, HeaderTimeout: time.Minute, IdleTimeout: time.Minute, WriteTimeout: time.Minute, TLS: server})
	srv := &http.Server{Handler: http.NotFoundHandler(), ConnState: fastpath.StateChanged, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(steps.Listen(t.Context(), told)) }() // ends with the listener
	defer srv.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if client != nil {
		c = tls.Client(c, client)
	}
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	select {
	case <-told.closed:
	case <-time.After(30 * time.Second):
		t.Fatal("the connection is not closed")
	}
}

// departed refuses every request when its client takes nothing any more.
type departed struct{ came <-chan *net.TCPConn }

func (departed) Takes(*http.Request) bool { return true }

func (d departed) Offer(w http.ResponseWriter, _ *http.Request) bool {
	_ = (<-d.came).CloseWrite() // what is written from now on fails, as it does for a client that has gone
	http.Error(w, "busy", http.StatusServiceUnavailable)
	return true
}

func (departed) Settle(context.Context, http.ResponseWriter, *http.Request) bool { return true }

// telling tells of the connection that comes, and when its Close has returned.
type telling struct {
	net.Listener
	came   chan *net.TCPConn
	closed chan struct{}
}

func (l *telling) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tc, _ := c.(*net.TCPConn)
	l.came <- tc
	return &clientContext{tc, l.closed}, nil
}

type clientContext struct {
	*net.TCPConn
	closed chan struct{}
}

func (c *clientContext) Close() error {
	err := c.TCPConn.Close()
	if err == nil {
		close(c.closed)
	}
	return err
}
