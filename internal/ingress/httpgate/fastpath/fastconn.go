package fastpath

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/h2"
)

// fast path is a client connection under net/http that serves plain requests
// before net/http reads them: a [Visit] decides about them, and takes those that
// are admitted to the backend, right there.
//
// Plain is a request that arrived by itself and whole, with a short body of known
// length or none, and without anything else that changes how requests are told apart; see
// [glance] and [plain.parse]. What reaches the backend is
// written anew from what was understood, as behind net/http. After anything
// that is not plain the connection is left to net/http for good, because it is
// no longer known here where a request begins. ADR 7 tells why.
type fastConn struct {
	net.Conn
	s      *Conns
	sock   *socket              // Conn, or what is below it; nil = there is none, and everything is net/http's
	tls    *tls.ConnectionState // of the client, whose TLS Conn is; nil = none
	remote string               // address of the client

	phase   atomic.Int32
	session atomic.Pointer[h2.Session] // while speaking

	// The fields below belong to the goroutine that serves the connection, or to
	// the request of HTTP/1.1 that net/http serves.
	pending []byte    // was read, and net/http is to get it
	touched time.Time // when the deadlines were last moved; zero = not by the fast path
	soon    bool      // the deadline for reading is not the end: see await
	arrival
}

// Phases of a connection of the fast path. For net/http a connection that serves plain requests is
// new, or idle, and is closed when the server shuts down.
const (
	fresh    int32 = iota // nothing was served yet
	resting               // a plain request was, and the next may come
	serving               // a plain one; Close waits for its end
	handed                // net/http has a request, after which the next begins here
	lost                  // net/http has the connection: it is not known here where requests begin
	speaking              // HTTP/2, which is neither's
	leaving               // Close was called
)

// connections of the fast path is a listener that puts a connection of the fast path under every connection.
type fastListener struct {
	net.Listener
	s *Conns
}

// Accept implements net.Listener.
func (l fastListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	sock := newSocket(c)
	if sock != nil {
		c = sock
	}
	return l.s.newConn(c, sock, nil), nil
}

// newDoorstep puts a connection of the fast path above c, which is sock or the TLS above it; without
// a socket net/http gets everything.
func (s *Conns) newConn(c net.Conn, sock *socket, state *tls.ConnectionState) *fastConn {
	d := &fastConn{Conn: c, s: s, sock: sock, tls: state, remote: c.RemoteAddr().String()}
	d.look = d.lookAt
	if sock == nil || !ingress.CanSeePeerGone || !s.open.Add(d) {
		d.phase.Store(lost) // its client could not be seen to leave, or nothing is to begin any more
	}
	return d
}

// StateChanged tells the fast path that net/http is done with a request. It runs
// in the goroutine that serves the connection: it is [http.Server.ConnState].
func StateChanged(c net.Conn, state http.ConnState) {
	if d, ok := c.(interface{ takeBack() }); ok && state == http.StateIdle {
		d.takeBack()
	}
}

// takeBack has the next request begin here, if net/http has left it at one.
func (d *fastConn) takeBack() { d.phase.CompareAndSwap(handed, resting) }

// Read implements net.Conn for net/http.
func (d *fastConn) Read(p []byte) (int, error) {
	if len(d.pending) > 0 {
		n := copy(p, d.pending)
		if d.pending = d.pending[n:]; len(d.pending) == 0 {
			d.pending = nil
		}
		return n, nil
	}
	switch d.phase.Load() {
	case lost:
		if !d.asked && d.tls == nil {
			return d.first(p)
		}
	case fresh, resting:
		if d.tls != nil {
			return ended(d.nextSecured(p))
		}
		return ended(d.next(p))
	case handed:
		// net/http reads one byte while a handler runs, in order to notice the
		// client's end, and would take it from the next request.
		if len(p) != 1 || d.awaitEnd() {
			d.phase.CompareAndSwap(handed, lost) // what is read is part of a request that is not known here
		}
	}
	return d.Conn.Read(p)
}

// ended words for net/http that a connection was closed here: to whatever else it cannot
// read it answers 400, which would count as a request that is not valid.
func ended(n int, err error) (int, error) {
	if errors.Is(err, net.ErrClosed) {
		return n, io.EOF
	}
	return n, err
}

// ownAnswer stands behind the first line of the answers that net/http writes to what
// it cannot read as a request. No handler's answer begins so: it has a date.
const ownAnswer = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// badFraming is such an answer, to a request of which nobody knows where it ends.
const badFraming = "HTTP/1.1 400 Bad Request" + ownAnswer + "400 Bad Request"

// Write implements net.Conn for net/http, and counts the requests that net/http answers
// without asking the handler.
func (d *fastConn) Write(p []byte) (int, error) {
	const first = "HTTP/1.1 "
	if end := bytes.IndexByte(p[:min(len(p), usual)], '\r'); end > len(first)+len("400") && bytes.HasPrefix(p[end:], []byte(ownAnswer)) {
		if status, err := strconv.Atoi(string(p[len(first) : len(first)+3])); err == nil {
			d.s.o.Counts.Invalid(status)
		}
	}
	return d.Conn.Write(p)
}

// enter goes from one phase to the next, unless the connection was closed
// meanwhile.
func (d *fastConn) enter(from, to int32) error {
	if !d.phase.CompareAndSwap(from, to) {
		return net.ErrClosed
	}
	return nil
}

// Close closes the connection, or lets a plain request on it end first.
func (d *fastConn) Close() error {
	for {
		phase := d.phase.Load()
		switch {
		case phase == leaving:
			return nil
		case phase == speaking: // of that a drain takes care
			d.session.Load().Retire()
			return nil
		case !d.phase.CompareAndSwap(phase, leaving):
		case phase == serving:
			return nil
		default:
			return d.leave()
		}
	}
}

// rest closes the connection where a plain request was served and the next has
// not come, and lets one that is served be the last.
func (d *fastConn) rest() {
	if d.phase.CompareAndSwap(resting, leaving) {
		go d.leave() //nolint:errcheck // nothing to be done; TLS may take seconds to say farewell to whoever does not listen
		return
	}
	d.phase.CompareAndSwap(serving, leaving)
}

// leave closes the connection. A drain waits for that.
func (d *fastConn) leave() error {
	d.phase.Store(leaving)
	defer d.s.open.Remove(d)
	return d.Conn.Close()
}

// awaitEnd waits until the client is gone, and reports that; or until the
// deadline for reading has passed.
func (d *fastConn) awaitEnd() (gone bool) {
	_ = d.sock.raw.Read(func(fd uintptr) bool { // fails when closed, or at the deadline
		gone = ingress.PeerGone(fd)
		return gone
	})
	return gone
}

// CloseWrite ends the stream to the client, where that is possible.
func (d *fastConn) CloseWrite() error {
	if half, ok := d.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
