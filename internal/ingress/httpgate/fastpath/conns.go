package fastpath

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/h2"
)

// A Visit is what the server does about one request after another, however it
// came.
type Handler = h2.Handler

// Bounds are those of a connection. None is zero.
type Bounds struct {
	MaxHeader     int           // bytes of a head
	HeaderTimeout time.Duration // for the rest of a head that net/http reads
	IdleTimeout   time.Duration // between two requests
	WriteTimeout  time.Duration // from a request to the end of its answer
	TLS           *tls.Config   // of clients; nil = they come without
}

// Options are what [New] needs; all of it.
type Options struct {
	Name    string          // of the ingress, for logs
	Door    *ingress.Door   // which counts handshakes that failed
	Counts  *ingress.Counts // of requests that net/http answers by itself; nil = nobody counts
	Log     *slog.Logger
	Drain   time.Duration  // for which a drain waits at most
	Visit   func() Handler // makes one; it is used again and again
	Streams *h2.Server     // serves HTTP/2
}

// Steps are the connections of a server. They are safe for concurrent use.
type Conns struct {
	o       Options
	open    *ingress.UnansweredConns
	bounds  atomic.Pointer[Bounds]
	resting atomic.Bool // [Steps.Rest] was called
	plains  sync.Pool   // of *plain, for their buffers
}

// New returns none yet.
func New(o Options, b Bounds) *Conns {
	s := &Conns{o: o, open: ingress.NewUnansweredConns()}
	s.plains.New = func() any { return newPlain(o.Visit()) }
	s.Apply(b)
	return s
}

// Apply replaces the bounds, for what begins from now on. Whether clients speak TLS is
// decided by [Steps.Listen].
func (s *Conns) Apply(b Bounds) {
	b.TLS = offering(b.TLS)
	s.bounds.Store(&b)
}

// Listen returns what net/http is to accept from in the place of ln, which is
// closed with it.
func (s *Conns) Listen(ctx context.Context, ln net.Listener) net.Listener {
	if s.bounds.Load().TLS != nil {
		return s.greet(ctx, ln)
	}
	return fastListener{ln, s}
}

// Rest is the beginning of a drain: it closes connections on which no request is
// under way and the last was served here, and makes every further answer the
// last of its connection.
func (s *Conns) Rest() {
	s.resting.Store(true)
	for _, c := range s.open.All() {
		if d, ok := c.(*fastConn); ok {
			d.rest()
		}
	}
}

// Finish waits for plain requests, of which net/http does not know, and cuts
// them off when ctx is done. It returns how many.
func (s *Conns) Finish(ctx context.Context) (cut int) {
	select {
	case <-s.open.Drain():
		return 0
	case <-ctx.Done():
	}
	left := s.open.All()
	for _, c := range left {
		if d, ok := c.(*fastConn); ok {
			_ = d.sock.Close() // TLS would take its time for a farewell
		}
	}
	return len(left)
}
