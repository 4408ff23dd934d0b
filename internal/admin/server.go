package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/admin/statusdoc"
	"github.com/admitd/admitd/internal/history"
	"github.com/admitd/admitd/internal/httpjson"
)

// Bounds of the port.
const (
	maxConnections = 1152 // open at a time; then the one that is idle longest is closed
	maxHeaderBytes = 16 << 10
	maxBody        = 64 << 10
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	idleTimeout    = 60 * time.Second
	writeTimeout   = 30 * time.Second // of one answer; streams renew it with every event
	profileTimeout = 5 * time.Minute

	defaultMaxSubscribers = 64
)

// Server answers on the admin port: what only reads, what changes something, and
// before both the guard. It is safe for concurrent use.
type Server struct {
	o       Options
	guard   guard
	book    history.Book
	cache   *statusdoc.Cache
	window  readHandlers
	changes changeHandlers
	handler http.Handler

	stopping chan struct{} // closed when streams must end
	stop     sync.Once
	open     atomic.Pointer[httpjson.Listener] // nil = it does not serve yet
}

// readHandlers answer what only reads.
type readHandlers struct {
	errorText

	o        *Options
	book     *history.Book
	cache    *statusdoc.Cache
	seats    eventReaders
	pages    sync.Mutex // held while one caller is given a page of the status
	stopping <-chan struct{}
}

// changeHandlers answer what changes something.
type changeHandlers struct {
	errorText

	o     *Options
	book  *history.Book
	cache *statusdoc.Cache
	guard *guard
}

// New returns a server. [Server.Close] ends its streams.
func New(o Options) *Server {
	if o.MaxSubscribers <= 0 {
		o.MaxSubscribers = defaultMaxSubscribers
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, stopping: make(chan struct{})}
	spoken := errorText{o.Log, s.book.Names}
	s.guard.o = &s.o
	s.cache = statusdoc.New(o.State.Snapshot, &s.book, s.changes.tag)
	s.changes = changeHandlers{errorText: spoken, o: &s.o, book: &s.book, cache: s.cache, guard: &s.guard}
	s.window.errorText, s.window.o, s.window.book, s.window.cache = spoken, &s.o, &s.book, s.cache
	s.window.seats.bound, s.window.stopping = int64(o.MaxSubscribers), s.stopping
	_ = s.SetToken(o.Token) // there is none yet to be dropped
	s.guard.exposed.Store(o.Address != nil && !httpjson.IsLoopback(o.Address))
	s.handler = s.routes()
	return s
}

// SetToken replaces the bearer tokens by those of a text: on each line one, or a
// name and one; "" asks for none. The tokens of a listener that others than this
// machine can reach are never dropped while it serves: the error is then
// [ErrExposed] and the old ones stay, as they do when the text does not hold.
func (s *Server) SetToken(token string) error { return s.guard.setToken(token) }

// LimitChanges returns how often limits moved, as far as it was seen.
func (s *Server) LimitChanges() []history.ChangeCount { return s.book.LimitChanges() }

// MostRefused returns the partition of an ingress for which most was refused since the
// call before, and how much.
func (s *Server) MostRefused(ingress string) (partition string, refused uint64) {
	return s.book.MostRefused(ingress)
}

// Baselines returns what the limits have learned of their backends: of each
// ingress the partitions that are asked most first.
func (s *Server) Baselines() []history.Learned { return s.book.Baselines() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers on ln until ctx is done; then it ends the streams, lets other
// answers finish for up to 5 s, and returns nil. It closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if s.guard.token.Load() == nil && !s.o.Insecure && !httpjson.IsLoopback(ln.Addr()) {
		_ = ln.Close() // nothing was served
		return fmt.Errorf("%w: %s", ErrExposed, ln.Addr())
	}
	s.guard.exposed.Store(!httpjson.IsLoopback(ln.Addr()))
	base := context.WithoutCancel(ctx)
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	pulse, still := context.WithCancel(base)
	var pulsing sync.WaitGroup
	pulsing.Go(func() { s.cache.Pulse(pulse) })
	defer pulsing.Wait()
	defer still()
	bound := httpjson.NewListener(ln, maxConnections)
	s.open.Store(bound)
	bound.Attach(srv, nil)
	if err := httpjson.Serve(ctx, srv, bound, s.Close); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}

// CloseIdle closes the connection that is idle longest, and reports whether there was
// one.
func (s *Server) CloseIdle() bool {
	bound := s.open.Load()
	return bound != nil && bound.CloseIdle()
}

// Close ends the streams.
func (s *Server) Close() {
	s.stop.Do(func() { close(s.stopping) })
}
