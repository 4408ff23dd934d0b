package h2

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
)

// A Visit is what the gate does about one request after another; it is asked about
// one at a time. Requests and answers are valid until it has answered.
type Handler interface {
	// Takes reports whether r is one that it decides about. All others are somebody
	// else's: see Options.Handler.
	Takes(r *http.Request) bool
	// Offer decides about a request that it takes and does not wait. It reports
	// whether that is all: r was refused, and w is the answer. Of a request without a
	// body that answer is one of [Refuse].
	Offer(w http.ResponseWriter, r *http.Request) (answered bool)
	// Settle answers a request of which more is to be done. ctx is done when the
	// client leaves. It reports whether the answer was cut off.
	Settle(ctx context.Context, w http.ResponseWriter, r *http.Request) (cut bool)
}

// Bounds are those of a session. None is zero.
type Bounds struct {
	MaxHeader     int           // bytes of the fields of a request
	HeaderTimeout time.Duration // for the rest of a frame, and of a block of fields
	IdleTimeout   time.Duration // without a request
	WriteTimeout  time.Duration // from a request to the end of its answer
	StreamIdle    time.Duration // in which the client takes something of what is sent
}

// Options are what [New] needs; all of it.
type Options struct {
	Name    string // of the ingress, for logs
	Log     *slog.Logger
	Streams int             // requests in flight on a session
	Visit   func() Handler  // makes one; it is used again and again
	Handler http.Handler    // of what no visit takes
	Counts  *ingress.Counts // of requests that are answered here since they are invalid; nil = nobody counts
}

// Server is the sessions of a gate. It is safe for concurrent use.
type Server struct {
	o       Options
	bounds  atomic.Pointer[Bounds]
	open    *ingress.UnansweredConns
	resting atomic.Bool // [Server.Rest] was called
	streams sync.Pool   // of *stream, for their buffers
}

// New returns a server without sessions.
func New(o Options, b Bounds) *Server {
	s := &Server{o: o, open: ingress.NewUnansweredConns()}
	s.streams.New = func() any { return newStream(o.Visit()) }
	s.Apply(b)
	return s
}

// Apply replaces the bounds, for what begins from now on.
func (s *Server) Apply(b Bounds) { s.bounds.Store(&b) }

// Begin takes a connection over which HTTP/2 is to be spoken, over TLS as state
// says; nil = without. early is what was read of it, from the preface on. It closes c
// and returns nil when no more are wanted.
func (s *Server) Begin(c net.Conn, state *tls.ConnectionState, early []byte) *Session {
	ss := newSession(s, c, state, early)
	if !s.open.Add(ss) {
		_ = ss.Close()
		return nil
	}
	return ss
}

// isAdequate reports whether HTTP/2 may be spoken so (RFC 9113, section 9.2): of the
// ciphers of TLS 1.2 it takes those that are both authenticated and forgotten.
func isAdequate(state *tls.ConnectionState) bool {
	if state == nil || state.Version > tls.VersionTLS12 {
		return true
	}
	switch state.CipherSuite {
	case tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256:
		return state.Version == tls.VersionTLS12
	}
	return false
}

// Rest is the beginning of a drain: clients are told to go elsewhere, and sessions
// end with the last request that is under way.
func (s *Server) Rest() {
	s.resting.Store(true)
	for _, c := range s.open.All() {
		if ss, ok := c.(*Session); ok {
			ss.Retire()
		}
	}
}

// Finish waits for the end of all sessions, and cuts them off when ctx is done. It
// returns how many requests that cost.
func (s *Server) Finish(ctx context.Context) (cut int) {
	over := s.open.Drain()
	select {
	case <-over:
		return 0
	case <-ctx.Done():
	}
	for _, c := range s.open.All() {
		if ss, ok := c.(*Session); ok {
			cut += ss.underWay()
		}
		_ = c.Close()
	}
	grace := time.NewTimer(lastRefusals)
	defer grace.Stop()
	select {
	case <-over: // requests have learnt of it
	case <-grace.C:
	}
	return cut
}
