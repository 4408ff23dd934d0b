package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/admitd/admitd/internal/ingress/nowait"
)

// backendBuffer is the read buffer of a connection to the backend, in bytes.
// Bodies pass it by.
const backendBuffer = 4 << 10

// ErrBackend is wrapped by [New] for a backend that is not a plain http or
// https address.
var ErrBackend = errors.New("upstream: backend must be http://HOST:PORT or https://HOST:PORT")

// Options describe a [Pool]. All are required but TLS.
type Options struct {
	Backend        string        // http://HOST:PORT or https://HOST:PORT
	TLS            *tls.Config   // of an https backend; nil = the system's authorities
	ConnectTimeout time.Duration // of a connection attempt, TLS included
	MaxIdle        int           // connections kept
	IdleTimeout    time.Duration // for which they are kept
}

// Pool keeps connections to one backend. It is safe for concurrent use.
type Pool struct {
	o      Options
	addr   string
	tls    *tls.Config // nil = plain
	dialer net.Dialer
	dials  atomic.Uint64

	mu      sync.Mutex // guards the fields below; never held across a wait
	idle    []*Conn    // the oldest first
	closed  bool
	reaping bool // reap will be called
}

// Conn is one connection to the backend. It serves one exchange at a time and
// belongs to who runs it; the functions may be called from anywhere.
type Conn struct {
	net.Conn
	// Reader buffers what comes; all reading goes through it.
	Reader *bufio.Reader
	Abort  func()        // makes all reading and writing fail; made once
	Leave  func()        // makes reading fail and tells Left; made once
	Left   chan struct{} // Leave has run; holds one
	Used   bool          // served an exchange before

	raw   syscall.RawConn // nil when there is none
	since time.Time
	outgoingRequest
	answerReader
}

// New parses the backend's address. It connects nowhere.
func New(o Options) (*Pool, error) {
	u, err := url.Parse(o.Backend)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBackend, err)
	}
	if u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("%w (%q)", ErrBackend, o.Backend)
	}
	p := &Pool{o: o}
	port := u.Port()
	switch u.Scheme {
	case "http":
		if port == "" {
			port = "80"
		}
	case "https":
		if port == "" {
			port = "443"
		}
		p.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if o.TLS != nil {
			p.tls = o.TLS.Clone()
		}
		if p.tls.ServerName == "" {
			p.tls.ServerName = u.Hostname()
		}
		p.tls.NextProtos = []string{"http/1.1"}
	default:
		return nil, fmt.Errorf("%w (%q)", ErrBackend, o.Backend)
	}
	p.addr = net.JoinHostPort(u.Hostname(), port)
	return p, nil
}

// WillDo reports whether connections opened so far will do under o.
func (p *Pool) WillDo(o Options) bool {
	return p.o.Backend == o.Backend && p.o.ConnectTimeout == o.ConnectTimeout && p.o.MaxIdle == o.MaxIdle &&
		p.o.IdleTimeout == o.IdleTimeout && sameTLS(p.o.TLS, o.TLS)
}

// Address returns the backend's host and port.
func (p *Pool) Address() string { return p.addr }

// Dials counts the connections that were opened.
func (p *Pool) Dials() uint64 { return p.dials.Load() }

// sameTLS reports whether two configurations trust and present the same, as far
// as that can be seen: one that calls back is like no other.
func sameTLS(a, b *tls.Config) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || callsBack(a) || callsBack(b) {
		return false
	}
	return a.ServerName == b.ServerName && a.InsecureSkipVerify == b.InsecureSkipVerify &&
		a.MinVersion == b.MinVersion && a.MaxVersion == b.MaxVersion && a.RootCAs.Equal(b.RootCAs) &&
		slices.EqualFunc(a.Certificates, b.Certificates, func(x, y tls.Certificate) bool {
			return slices.EqualFunc(x.Certificate, y.Certificate, bytes.Equal)
		})
}

// callsBack reports whether c asks its owner during a handshake.
func callsBack(c *tls.Config) bool {
	return c.GetClientCertificate != nil || c.VerifyPeerCertificate != nil || c.VerifyConnection != nil
}

// Get returns the connection that was used last, or opens one. Whether the former
// is still good is for [Conn.Ask] or [Conn.Begin] to say.
func (p *Pool) Get(ctx context.Context) (*Conn, error) {
	if bc := p.pop(); bc != nil {
		return bc, nil
	}
	return p.Dial(ctx)
}

// pop takes the youngest idle connection, nil when there is none.
func (p *Pool) pop() *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	bc := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return bc
}

// Put keeps bc for the next exchange. Bytes left in its buffer would be taken
// for the next answer, so it is closed then.
func (p *Pool) Put(bc *Conn) {
	if bc.Reader.Buffered() > 0 || bc.SetDeadline(time.Time{}) != nil {
		_ = bc.Close()
		return
	}
	bc.Used, bc.since = true, time.Now()
	drop := bc
	p.mu.Lock()
	switch {
	case p.closed || len(p.idle) >= p.o.MaxIdle:
	case len(p.idle) > 0 && bc.since.Sub(p.idle[0].since) > p.o.IdleTimeout:
		drop = p.idle[0] // the oldest goes, one for each that comes
		p.idle = append(p.idle[:0], p.idle[1:]...)
		p.idle = append(p.idle, bc)
	default:
		drop = nil
		p.idle = append(p.idle, bc)
		if !p.reaping {
			p.reaping = true
			time.AfterFunc(p.o.IdleTimeout, p.reap)
		}
	}
	p.mu.Unlock()
	if drop != nil {
		_ = drop.Close()
	}
}

// reap closes what was idle for too long, and comes back while anything is idle.
func (p *Pool) reap() {
	p.mu.Lock()
	now, n := time.Now(), 0
	for n < len(p.idle) && now.Sub(p.idle[n].since) >= p.o.IdleTimeout {
		n++
	}
	old := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	if p.reaping = len(p.idle) > 0; p.reaping {
		time.AfterFunc(p.o.IdleTimeout-now.Sub(p.idle[0].since), p.reap)
	}
	p.mu.Unlock()
	for _, bc := range old {
		_ = bc.Close()
	}
}

// Dial opens a connection.
func (p *Pool) Dial(ctx context.Context) (*Conn, error) {
	p.dials.Add(1)
	ctx, cancel := context.WithTimeout(ctx, p.o.ConnectTimeout)
	defer cancel()
	c, err := p.dialer.DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, fmt.Errorf("upstream: connect: %w", err)
	}
	bc := &Conn{Conn: c, Left: make(chan struct{}, 1)}
	if sc, ok := c.(syscall.Conn); ok {
		bc.raw, _ = sc.SyscallConn() // nil on failure: not looked at
	}
	if p.tls != nil {
		secured := tls.Client(c, p.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("upstream: TLS with the backend: %w", err)
		}
		bc.Conn = secured
	}
	bc.bare = nowait.Can && p.tls == nil && bc.raw != nil
	bc.Reader = bufio.NewReaderSize(bc, backendBuffer)
	bc.Abort = func() { _ = c.SetDeadline(time.Unix(1, 0)) }
	bc.Leave = func() {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // fails only when closed
		bc.Left <- struct{}{}
	}
	bc.step, bc.fetch = bc.askOn, bc.fetchAt
	bc.look = func(fd uintptr) { bc.quiet = nowait.IsQuiet(fd) }
	return bc, nil
}

// CloseWrite ends the stream to the backend, where that is possible.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// EndWriting tells the backend that nothing more will come, and leaves its answer to be
// read. Where that is impossible it closes the connection.
func (c *Conn) EndWriting() {
	if c.CloseWrite() == nil {
		return
	}
	secured, ok := c.Conn.(*tls.Conn) // on which nothing can be written after a write that failed
	if !ok {
		_ = c.Close()
		return
	}
	if half, ok := secured.NetConn().(*net.TCPConn); !ok || half.CloseWrite() != nil {
		_ = c.Close()
	}
}

// CloseIdle closes what is idle, and from now on what becomes idle.
func (p *Pool) CloseIdle() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, bc := range idle {
		_ = bc.Close()
	}
}

// Idle returns how many connections are idle.
func (p *Pool) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}
