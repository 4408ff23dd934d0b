package decide

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/httpjson"
)

// Bounds of the listener.
const (
	maxConnections = 4096
	maxHeaderBytes = 32 << 10 // a proxy sends its client's headers along
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	idleTimeout    = 5 * time.Minute
	writeTimeout   = 30 * time.Second // of one answer
)

// ErrExposed is returned by [Server.Serve] for a listener that others than this
// machine can reach, without a token, client certificates or Insecure, and by
// [Server.SetToken] for dropping the token of such a listener.
var ErrExposed = errors.New("decide: a non-loopback address needs a token, client certificates, or insecure")

// Options of [NewServer]. The zero value works.
type Options struct {
	// Token that callers carry as a bearer, or in X-Admitd-Token; "" = none is
	// asked for.
	Token string
	// TLS towards callers; nil = plain. With it callers may be asked for
	// certificates.
	TLS *tls.Config
	// Insecure lets others than this machine ask without a token.
	Insecure bool
	// GRPC answers gRPC; nil = 415. Who asks for health need not know the token.
	GRPC http.Handler
	// Stopping is called when the listener is about to stop, to end the streams
	// of GRPC; nil = nothing is to end.
	Stopping func()
	// Ready tells whether callers should ask here; nil = always.
	Ready func() bool
	// MaxConnections bounds the connections, of which one that is idle gives way to a
	// new one; 0 = 4,096.
	MaxConnections int
	// Log takes what an operator must know; nil = discarded.
	Log *slog.Logger
}

// Server answers on the decisions listener. It is safe for concurrent use.
type Server struct {
	o       Options
	decider *Decider
	token   token
	digest  atomic.Pointer[[sha256.Size]byte] // nil = none
	exposed atomic.Bool                       // others than this machine can ask
	handler http.Handler
	open    atomic.Pointer[httpjson.Listener] // nil = it does not serve yet
}

// NewServer returns a server over d.
func NewServer(d *Decider, o Options) *Server {
	if o.MaxConnections <= 0 {
		o.MaxConnections = maxConnections
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Ready == nil {
		o.Ready = func() bool { return true }
	}
	s := &Server{o: o, decider: d}
	s.token = token{s.digest.Load}
	_ = s.SetToken(o.Token) // there is none yet to be dropped
	s.handler = s.routes()
	return s
}

// SetToken replaces the token; "" asks for none. The token of a listener that
// others than this machine can reach is never dropped while it serves: the error
// is then [ErrExposed] and the old one stays.
func (s *Server) SetToken(text string) error {
	if text == "" {
		if s.exposed.Load() && s.digest.Load() != nil {
			return ErrExposed
		}
		s.digest.Store(nil)
		return nil
	}
	sum := sha256.Sum256([]byte(text))
	s.digest.Store(&sum)
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isGRPC(r) {
		s.handler.ServeHTTP(w, r)
		return
	}
	if s.o.GRPC == nil {
		httpjson.Fail(w, http.StatusUnsupportedMediaType, "there is no gRPC here")
		return
	}
	h := s.o.GRPC
	if !isProbe(r) { // probes have no token
		h = s.token.ask(h)
	}
	endless(w)
	h.ServeHTTP(w, r)
}

// isGRPC reports whether r is a call over gRPC.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// isProbe reports whether a call asks for health.
func isProbe(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/grpc.health.v1.") }

// endless takes the deadlines off a stream, which may live as long as both ends
// do.
func endless(w http.ResponseWriter) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Time{})
}

// Serve answers on ln until ctx is done; then it lets answers finish for up to
// 5 s, and returns nil. It closes ln. HTTP/2 is spoken with TLS and without.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if s.digest.Load() == nil && !s.o.Insecure && !s.asksForCertificates() && !httpjson.IsLoopback(ln.Addr()) {
		_ = ln.Close() // nothing was served
		return fmt.Errorf("%w: %s", ErrExposed, ln.Addr())
	}
	s.exposed.Store(!httpjson.IsLoopback(ln.Addr()))
	base := context.WithoutCancel(ctx)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler: s, Protocols: &protocols, TLSConfig: s.o.TLS,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:    slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return base },
	}
	bound := httpjson.NewListener(ln, s.o.MaxConnections)
	s.open.Store(bound)
	bound.Attach(srv, func(r *http.Request) bool { return isGRPC(r) && !isProbe(r) })
	err := httpjson.Serve(ctx, srv, bound, func() {
		if s.o.Stopping != nil {
			s.o.Stopping()
		}
	})
	if err != nil {
		return fmt.Errorf("decide: %w", err)
	}
	return nil
}

// CloseIdle closes the connection that is idle longest, and reports whether there was
// one.
func (s *Server) CloseIdle() bool {
	bound := s.open.Load()
	return bound != nil && bound.CloseIdle()
}

// asksForCertificates reports whether every caller must present a certificate.
func (s *Server) asksForCertificates() bool {
	return s.o.TLS != nil && s.o.TLS.ClientAuth == tls.RequireAndVerifyClientCert
}
