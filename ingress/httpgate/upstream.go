package httpgate

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
)

// backendBuffer is the read buffer of a connection to the backend, in bytes.
// Bodies pass it by.
const backendBuffer = 4 << 10

// ErrBackend is wrapped by [New] for a backend that is not a plain http or
// https address.
var ErrBackend = errors.New("httpgate: backend must be http://HOST:PORT or https://HOST:PORT")

// upstream keeps connections to the backend. It is safe for concurrent use.
type upstream struct {
	addr    string
	tls     *tls.Config // nil = plain
	dialer  net.Dialer
	timeout time.Duration // of a connection attempt, TLS included
	maxIdle int
	maxAge  time.Duration // of an idle connection
	dials   atomic.Uint64
	retries atomic.Uint64

	mu      sync.Mutex     // guards the fields below; never held across a wait
	idle    []*backendConn // the oldest first
	closed  bool
	reaping bool // reap will be called
}

// backendConn is one connection. It serves one exchange at a time.
type backendConn struct {
	net.Conn
	br    *bufio.Reader
	raw   syscall.RawConn // nil when there is none
	abort func()          // makes all reading and writing fail; made once
	leave func()          // makes reading fail and tells left; made once
	left  chan struct{}   // leave has run; holds one
	look  func(fd uintptr)
	quiet bool // what look found: alive, and nothing to read
	used  bool // served an exchange before
	since time.Time
}

// newUpstream parses the backend's address.
func newUpstream(o *Options) (*upstream, error) {
	u, err := url.Parse(o.Backend)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBackend, err)
	}
	if u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("%w (%q)", ErrBackend, o.Backend)
	}
	up := &upstream{timeout: o.ConnectTimeout, maxIdle: o.MaxIdle, maxAge: o.IdleTimeout}
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
		up.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if o.BackendTLS != nil {
			up.tls = o.BackendTLS.Clone()
		}
		if up.tls.ServerName == "" {
			up.tls.ServerName = u.Hostname()
		}
		up.tls.NextProtos = []string{"http/1.1"}
	default:
		return nil, fmt.Errorf("%w (%q)", ErrBackend, o.Backend)
	}
	up.addr = net.JoinHostPort(u.Hostname(), port)
	return up, nil
}

// sameUpstream reports whether connections opened under a will do under b.
func sameUpstream(a, b *Options) bool {
	return a.Backend == b.Backend && a.ConnectTimeout == b.ConnectTimeout && a.MaxIdle == b.MaxIdle &&
		a.IdleTimeout == b.IdleTimeout && sameTLS(a.BackendTLS, b.BackendTLS)
}

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

// get returns the connection that was used last, if it is still good, or opens
// one.
func (u *upstream) get(ctx context.Context) (*backendConn, error) {
	for {
		bc := u.pop()
		if bc == nil {
			return u.dial(ctx)
		}
		if bc.isQuiet() {
			return bc, nil
		}
		_ = bc.Close() // the backend closed it, or sent what nobody asked for
	}
}

// pop takes the youngest idle connection, nil when there is none.
func (u *upstream) pop() *backendConn {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.idle)
	if n == 0 {
		return nil
	}
	bc := u.idle[n-1]
	u.idle[n-1] = nil
	u.idle = u.idle[:n-1]
	return bc
}

// put keeps bc for the next exchange. Bytes left in its buffer would be taken
// for the next answer, so it is closed then.
func (u *upstream) put(bc *backendConn) {
	if bc.br.Buffered() > 0 || bc.SetDeadline(time.Time{}) != nil {
		_ = bc.Close()
		return
	}
	bc.used, bc.since = true, time.Now()
	drop := bc
	u.mu.Lock()
	switch {
	case u.closed || len(u.idle) >= u.maxIdle:
	case len(u.idle) > 0 && bc.since.Sub(u.idle[0].since) > u.maxAge:
		drop = u.idle[0] // the oldest goes, one for each that comes
		u.idle = append(u.idle[:0], u.idle[1:]...)
		u.idle = append(u.idle, bc)
	default:
		drop = nil
		u.idle = append(u.idle, bc)
		if !u.reaping {
			u.reaping = true
			time.AfterFunc(u.maxAge, u.reap)
		}
	}
	u.mu.Unlock()
	if drop != nil {
		_ = drop.Close()
	}
}

// reap closes what was idle for too long, and comes back while anything is idle.
func (u *upstream) reap() {
	u.mu.Lock()
	now, n := time.Now(), 0
	for n < len(u.idle) && now.Sub(u.idle[n].since) >= u.maxAge {
		n++
	}
	old := slices.Clone(u.idle[:n])
	u.idle = slices.Delete(u.idle, 0, n)
	if u.reaping = len(u.idle) > 0; u.reaping {
		time.AfterFunc(u.maxAge-now.Sub(u.idle[0].since), u.reap)
	}
	u.mu.Unlock()
	for _, bc := range old {
		_ = bc.Close()
	}
}

// dial opens a connection.
func (u *upstream) dial(ctx context.Context) (*backendConn, error) {
	u.dials.Add(1)
	ctx, cancel := context.WithTimeout(ctx, u.timeout)
	defer cancel()
	c, err := u.dialer.DialContext(ctx, "tcp", u.addr)
	if err != nil {
		return nil, fmt.Errorf("httpgate: connect: %w", err)
	}
	bc := &backendConn{Conn: c, left: make(chan struct{}, 1)}
	if sc, ok := c.(syscall.Conn); ok {
		bc.raw, _ = sc.SyscallConn() // nil on failure: not looked at
	}
	if u.tls != nil {
		secured := tls.Client(c, u.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("httpgate: TLS with the backend: %w", err)
		}
		bc.Conn = secured
	}
	bc.br = bufio.NewReaderSize(bc.Conn, backendBuffer)
	bc.abort = func() { _ = c.SetDeadline(time.Unix(1, 0)) }
	bc.leave = func() {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // fails only when closed
		bc.left <- struct{}{}
	}
	bc.look = func(fd uintptr) { bc.quiet = isQuiet(fd) }
	return bc, nil
}

// isQuiet reports whether an idle connection is open and nothing came on it.
// It costs a system call and saves both failed requests and answers that
// belong to nobody.
func (bc *backendConn) isQuiet() bool {
	if bc.raw == nil {
		return true
	}
	return bc.raw.Control(bc.look) == nil && bc.quiet
}

// CloseWrite ends the stream to the backend, where that is possible.
func (bc *backendConn) CloseWrite() error {
	if half, ok := bc.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// closeIdle closes what is idle, and from now on what becomes idle.
func (u *upstream) closeIdle() {
	u.mu.Lock()
	idle := u.idle
	u.idle, u.closed = nil, true
	u.mu.Unlock()
	for _, bc := range idle {
		_ = bc.Close()
	}
}

// idleCount returns how many connections are idle.
func (u *upstream) idleCount() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.idle)
}
