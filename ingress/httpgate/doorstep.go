package httpgate

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"sync"
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
// Plain is a request that arrived by itself and whole, with a short body of known
// length or none, and without anything else that changes how requests are told apart; see
// [glance] and [plain.parse]. What reaches the backend is
// written anew from what was understood, as behind net/http. After anything
// that is not plain the connection is left to net/http for good, because it is
// no longer known here where a request begins. ADR 7 tells why.
type doorstep struct {
	net.Conn
	s      *Server
	raw    syscall.RawConn
	remote string // address of the client

	phase atomic.Int32

	// The fields below belong to the goroutine that serves the connection, or to
	// the request of HTTP/1.1 that net/http serves.
	pending []byte    // was read, and net/http is to get it
	touched time.Time // when the deadlines were last moved
}

// Phases of a doorstep. For net/http a connection that serves plain requests is
// new, or idle, and is closed when the server shuts down.
const (
	fresh   int32 = iota // nothing was served yet
	resting              // a plain request was, and the next may come
	serving              // a plain one; Close waits for its end
	handed               // net/http has a request, after which the next begins here
	lost                 // net/http has the connection: it is not known here where requests begin
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
	d := &doorstep{Conn: c, s: l.s, remote: c.RemoteAddr().String()}
	if sc, ok := c.(syscall.Conn); ok && ingress.CanSeePeerGone {
		d.raw, err = sc.SyscallConn()
	}
	if d.raw == nil || err != nil || !l.s.steps.add(d) {
		d.phase.Store(lost) // its client could not be seen to leave, or nothing is to begin any more
	}
	return d, nil
}

// stateChanged tells the doorstep that net/http is done with a request. It runs
// in the goroutine that serves the connection.
func stateChanged(c net.Conn, state http.ConnState) {
	if d, ok := c.(*doorstep); ok && state == http.StateIdle {
		d.phase.CompareAndSwap(handed, resting)
	}
}

// Read implements net.Conn for net/http.
func (d *doorstep) Read(p []byte) (int, error) {
	if len(d.pending) > 0 {
		n := copy(p, d.pending)
		if d.pending = d.pending[n:]; len(d.pending) == 0 {
			d.pending = nil
		}
		return n, nil
	}
	switch d.phase.Load() {
	case fresh, resting:
		return d.next(p)
	case handed:
		// net/http reads one byte while a handler runs, in order to notice the
		// client's end, and would take it from the next request.
		if len(p) != 1 || d.awaitEnd() {
			d.phase.CompareAndSwap(handed, lost) // what is read is part of a request that is not known here
		}
	}
	return d.Conn.Read(p)
}

// next serves requests for as long as they are plain, and gives net/http what
// came when one is not.
func (d *doorstep) next(p []byte) (int, error) {
	for {
		n, err := d.Conn.Read(p)
		if err != nil || n == 0 {
			return n, err
		}
		var served bool
		if len(p) < wholeRead && n == len(p) {
			served, err = d.meetRest(p)
		} else {
			served, err = d.meet(p[:n])
		}
		if err != nil {
			return 0, err
		}
		if !served {
			return n, nil
		}
	}
}

// meetRest is meet where net/http asked for a few bytes only, in order to see
// whether they are HTTP/2's, and more may have come.
func (d *doorstep) meetRest(few []byte) (served bool, err error) {
	if plainMethod(few) == "" {
		return d.meet(few)
	}
	buf, _ := heads.Get().(*[]byte)
	defer heads.Put(buf)
	n := copy(*buf, few)
	more, err := d.Conn.Read((*buf)[n:])
	if err != nil {
		return false, err
	}
	served, err = d.meet((*buf)[:n+more])
	if !served {
		d.pending = bytes.Clone((*buf)[n : n+more])
	}
	return served, err
}

// heads holds buffers for first requests.
var heads = sync.Pool{New: func() any { b := make([]byte, 4<<10); return &b }} //nolint:gochecknoglobals // a pool is global by nature

// meet looks at what came where a request begins, and reports whether it was
// answered. Otherwise net/http gets it. An error ends the connection.
func (d *doorstep) meet(raw []byte) (served bool, err error) {
	before := d.phase.Load()
	g, ok := glance(raw)
	if !ok {
		return false, d.enter(before, lost)
	}
	p, _ := plains.Get().(*plain)
	defer plains.Put(p)
	rt := d.s.route.Load()
	// In a drain too: net/http would read it and leave it unanswered.
	if g.head > rt.o.MaxHeader || !p.parse(string(raw[:g.head]), g) || !rt.takes(p) {
		return false, d.enter(before, handed) // net/http has something to say about it
	}
	if err := d.enter(before, serving); err != nil {
		return false, err
	}
	keep := false
	defer func() { // forwarding may panic
		if !keep || !d.phase.CompareAndSwap(serving, resting) {
			err = net.ErrClosed
			_ = d.leave()
		}
	}()
	keep = p.serve(d, rt, raw[g.head:])
	return true, nil
}

// enter goes from one phase to the next, unless the connection was closed
// meanwhile.
func (d *doorstep) enter(from, to int32) error {
	if !d.phase.CompareAndSwap(from, to) {
		return net.ErrClosed
	}
	return nil
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
		phase := d.phase.Load()
		switch {
		case phase == leaving:
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
func (d *doorstep) rest() {
	if d.phase.CompareAndSwap(resting, leaving) {
		_ = d.leave()
		return
	}
	d.phase.CompareAndSwap(serving, leaving)
}

// leave closes the connection.
func (d *doorstep) leave() error {
	d.phase.Store(leaving)
	d.s.steps.remove(d)
	return d.Conn.Close()
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

// refresh moves the deadlines of a connection at the beginning of a request, and
// again at its end when it took its time: for the answer, and for the next
// request, whose wait begins so soon after this one did that it is one with it.
// net/http's own deadlines were for one of its requests.
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
