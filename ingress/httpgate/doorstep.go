package httpgate

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/admitd/admitd/ingress"
)

// doorstep is a client connection under net/http that serves plain requests
// before net/http reads them: it decides about them, forwards them and answers
// them right there. net/http costs more than everything else that happens to a
// request.
//
// Plain is a whole GET that arrived by itself, without anything that changes
// how requests are told apart; see [plain.parse]. What reaches the backend is
// written anew from what was understood, as behind net/http. After anything
// that is not plain the connection is left to net/http for good, because it is
// no longer known here where a request begins. ADR 7 tells why.
type doorstep struct {
	net.Conn
	s *Server

	lost  atomic.Bool // it is no longer known where requests begin; stays so
	phase atomic.Int32

	// The fields below belong to the goroutine that serves the connection.
	// HTTP/2 has several, but is lost from its first bytes on.
	atStart bool      // the next byte begins a request
	touched time.Time // when the deadlines were last moved
	prefix  []byte    // of the first request, until its head is whole
	raw     syscall.RawConn
}

// Phases of a doorstep. net/http takes a connection for idle that serves a plain
// request, and closes it when the server shuts down.
const (
	resting int32 = iota // Close closes
	serving              // Close waits for the end of the request
	leaving              // Close was called
)

// wholeRead tells net/http's reads for a request from those for a few bytes.
const wholeRead = 512

// doorsteps is a listener that puts a doorstep under every connection.
type doorsteps struct {
	net.Listener
	s *Server
}

// Accept implements net.Listener.
func (l doorsteps) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	d := &doorstep{Conn: c, s: l.s, atStart: true}
	if sc, ok := c.(syscall.Conn); ok && ingress.CanSeePeerGone {
		d.raw, err = sc.SyscallConn()
	}
	if d.raw == nil || err != nil || !l.s.steps.add(c) {
		d.lost.Store(true) // its client could not be seen to leave, or nothing is to begin any more
	}
	return d, nil
}

// stateChanged tells the doorstep that net/http is done with a request. It runs
// in the goroutine that serves the connection.
func stateChanged(c net.Conn, state http.ConnState) {
	if d, ok := c.(*doorstep); ok && state == http.StateIdle && !d.lost.Load() {
		d.atStart = true
	}
}

// Read implements net.Conn for net/http.
func (d *doorstep) Read(p []byte) (int, error) {
	if d.lost.Load() {
		return d.Conn.Read(p)
	}
	if len(p) == 1 && !d.atStart {
		// net/http reads one byte while a handler runs, in order to notice the
		// client's end, and would take it from the next request.
		if d.awaitEnd() {
			d.lost.Store(true) // the read that follows may yield a byte
		}
		return d.Conn.Read(p)
	}
	if !d.atStart {
		n, err := d.Conn.Read(p)
		if n > 0 {
			d.lost.Store(true)
		}
		return n, err
	}
	for {
		n, err := d.Conn.Read(p)
		if err != nil || n == 0 {
			return n, err
		}
		served, err := d.meet(p[:n], len(p) < wholeRead)
		if err != nil {
			return 0, err
		}
		if !served {
			return n, nil
		}
	}
}

// meet looks at what came where a request begins, and reports whether it was
// answered. Otherwise net/http gets it. few says that net/http asked only for
// the first bytes. An error ends the connection.
func (d *doorstep) meet(raw []byte, few bool) (served bool, err error) {
	if few || len(d.prefix) > 0 {
		d.first(raw, few)
		return false, nil
	}
	if !isWholeGet(raw) {
		d.lost.Store(true)
		return false, nil
	}
	p, _ := plains.Get().(*plain)
	defer plains.Put(p)
	rt := d.s.route.Load()
	if d.s.isDraining() || !p.parse(string(raw)) || !rt.takes(p) {
		d.atStart = false
		return false, nil // net/http has something to say about it
	}
	if !d.phase.CompareAndSwap(resting, serving) {
		return false, net.ErrClosed
	}
	keep := false
	defer func() { // forwarding may panic
		if !keep || !d.phase.CompareAndSwap(serving, resting) {
			err = net.ErrClosed
			_ = d.leave()
		}
	}()
	keep = p.serve(d, rt)
	return true, nil
}

// takes reports whether a plain request is one for the doorstep.
func (rt *route) takes(p *plain) bool {
	if rt.o.Observer != nil || rt.o.Hello != nil && p.r.URL.Path == helloPath {
		return false
	}
	status, _ := rt.unacceptable(&p.r)
	return status == 0
}

// Close closes the connection, or lets a plain request on it end first.
func (d *doorstep) Close() error {
	for {
		switch d.phase.Load() {
		case serving:
			if d.phase.CompareAndSwap(serving, leaving) {
				return nil
			}
		case resting:
			if d.phase.CompareAndSwap(resting, leaving) {
				return d.leave()
			}
		default:
			return nil
		}
	}
}

// leave closes the connection.
func (d *doorstep) leave() error {
	d.phase.Store(leaving)
	d.s.steps.remove(d.Conn)
	return d.Conn.Close()
}

// first watches the first request of a connection pass by. net/http takes its
// first bytes by themselves, to see whether they are HTTP/2's, so that it is
// too late to answer it here; but when it is a plain one, the next can be.
func (d *doorstep) first(p []byte, more bool) {
	d.prefix = append(d.prefix, p...)
	if more && len(d.prefix) < wholeRead && bytes.HasPrefix(d.prefix, []byte("GET /")) {
		return
	}
	if !isWholeGet(d.prefix) {
		d.lost.Store(true)
	}
	d.prefix, d.atStart = nil, false
}

// awaitEnd waits until the client is gone, and reports that; or until the
// deadline for reading has passed.
func (d *doorstep) awaitEnd() (gone bool) {
	_ = d.raw.Read(func(fd uintptr) bool { // fails when closed, or at the deadline
		gone = ingress.PeerGone(fd)
		return gone
	})
	return gone
}

// refresh moves the deadlines of a connection that goes on to its next request:
// net/http's own were for one of its requests.
func (d *doorstep) refresh(now time.Time, o *Options) error {
	if now.Sub(d.touched) <= time.Second {
		return nil
	}
	d.touched = now
	return errors.Join(d.SetReadDeadline(now.Add(o.IdleTimeout)), d.SetWriteDeadline(now.Add(o.writeTimeout())))
}

// CloseWrite ends the stream to the client, where that is possible.
func (d *doorstep) CloseWrite() error {
	if half, ok := d.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
