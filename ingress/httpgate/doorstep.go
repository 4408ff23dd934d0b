package httpgate

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// doorstep is a client connection under net/http that decides about simple
// requests before net/http reads them. A refusal is answered right there; what
// is admitted goes on into net/http, and its permit waits here for the handler.
// net/http takes twice as long over a request as everything else in a refusal,
// and overload is when that counts.
//
// Simple is a whole GET that arrived by itself, without anything that changes
// how requests are told apart. After anything else the connection is left to
// net/http for good, because it is no longer known here where a request begins.
// Nothing is forwarded from here: what reaches the backend is always what
// net/http has read. ADR 7 tells why.
type doorstep struct {
	net.Conn
	s *Server

	lost atomic.Bool // it is no longer known where requests begin; stays so

	// The fields below belong to the goroutine that serves the connection.
	// HTTP/2 has several, but is lost from its first bytes on.
	atStart bool // the next byte begins a request
	waiting admitted
	touched time.Time // when the deadlines were last moved
	prefix  []byte    // of the first request, until its head is whole
	raw     syscall.RawConn
}

// wholeRead tells net/http's reads for a request from those for a few bytes.
const wholeRead = 512

// admitted is a decision that waits for the handler.
type admitted struct {
	ok     bool
	req    limiter.Request
	permit limiter.Permit
	ticket *limiter.Ticket // the request must wait; nil = permit is held
}

// hotFor is for how many admissions after a refusal requests are still decided
// about on the doorstep. Deciding there costs an admitted request a few percent,
// so it is done while there is something to refuse.
const hotFor = 1000

// doorstepKey finds the doorstep in a request's context.
type doorstepKey struct{}

// decidedFor returns the decision that waits for r, if there is one.
func decidedFor(r *http.Request) admitted {
	d, ok := r.Context().Value(doorstepKey{}).(*doorstep)
	if !ok || r.ProtoMajor != 1 || !d.waiting.ok {
		return admitted{}
	}
	return d.take()
}

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
	return &doorstep{Conn: c, s: l.s, atStart: true}, nil
}

// stateChanged tells the doorstep that net/http is done with a request, or with
// the connection. It runs in the goroutine that serves the connection.
func stateChanged(c net.Conn, state http.ConnState) {
	d, ok := c.(*doorstep)
	if !ok {
		return
	}
	switch state {
	case http.StateIdle:
		if !d.lost.Load() {
			d.atStart = true
		}
	case http.StateClosed:
		d.drop()
	default:
	}
}

// Read implements net.Conn for net/http.
func (d *doorstep) Read(p []byte) (int, error) {
	if d.lost.Load() {
		return d.Conn.Read(p)
	}
	if len(p) == 1 && !d.atStart && d.awaitEnd() {
		return d.Conn.Read(p) // what made the wait end, again
	}
	if !d.atStart {
		n, err := d.Conn.Read(p)
		if n > 0 {
			d.lost.Store(true)
		}
		return n, err
	}
	d.drop() // if net/http did not bring the last one to the handler
	for {
		n, err := d.Conn.Read(p)
		if err != nil || n == 0 {
			return n, err
		}
		refused, err := d.meet(p[:n], len(p) < wholeRead)
		if err != nil {
			return 0, err
		}
		if !refused {
			return n, nil
		}
	}
}

// meet looks at what came where a request begins, and reports whether it was
// answered. Otherwise net/http gets it. few says that net/http asked only for
// the first bytes.
func (d *doorstep) meet(raw []byte, few bool) (refused bool, err error) {
	if few || len(d.prefix) > 0 {
		d.first(raw, few)
		return false, nil
	}
	if !isSimple(raw) {
		d.lost.Store(true)
		return false, nil
	}
	if d.s.hot.Load() > 0 {
		if refused, err = d.decide(raw); refused || err != nil {
			return refused, err
		}
	}
	d.atStart = false
	return false, nil
}

// first watches the first request of a connection pass by. net/http takes its
// first bytes by themselves, to see whether they are HTTP/2's, so that it is
// too late to answer it here; but when it is a simple one, the next can be.
func (d *doorstep) first(p []byte, more bool) {
	d.prefix = append(d.prefix, p...)
	if more && len(d.prefix) < wholeRead && bytes.HasPrefix(d.prefix, []byte("GET /")) {
		return
	}
	if !isSimple(d.prefix) {
		d.lost.Store(true)
	}
	d.prefix, d.atStart = nil, false
}

// awaitEnd waits until the client is gone, or the deadline has passed.
// net/http reads one byte while a handler runs, in order to notice the former,
// and would take that byte from the beginning of the next request. It reports
// false where the end cannot be seen without reading.
func (d *doorstep) awaitEnd() bool {
	if !ingress.CanSeePeerGone {
		return false
	}
	if d.raw == nil {
		sc, ok := d.Conn.(syscall.Conn)
		if !ok {
			return false
		}
		raw, err := sc.SyscallConn()
		if err != nil {
			return false
		}
		d.raw = raw
	}
	gone := false
	err := d.raw.Read(func(fd uintptr) bool {
		gone = ingress.PeerGone(fd)
		return gone
	})
	if gone {
		d.lost.Store(true) // the read that follows may yield a byte
	}
	return gone || err != nil
}

// CloseWrite ends the stream to the client, where that is possible.
func (d *doorstep) CloseWrite() error {
	if half, ok := d.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// drop ends a permit that nobody came for.
func (d *doorstep) drop() {
	if !d.waiting.ok {
		return
	}
	a := d.take()
	if a.ticket != nil {
		a.ticket.Abandon()
		return
	}
	a.permit.End(limiter.Ignored)
}

// take hands over the decision.
func (d *doorstep) take() admitted {
	a := d.waiting
	d.waiting = admitted{}
	return a
}

// decide decides about the request that raw holds, if it is a simple one, and
// answers it when it is refused. Otherwise net/http gets to see it.
func (d *doorstep) decide(raw []byte) (refused bool, err error) {
	rt := d.s.route.Load()
	sc, _ := scratches.Get().(*scratch)
	defer scratches.Put(sc)
	if !sc.parse(string(raw)) {
		return false, nil // net/http has something to say about it
	}
	if rt.id.ambiguous(&sc.r) != "" || rt.o.Observer != nil || rt.o.Hello != nil && sc.r.URL.Path == helloPath {
		return false, nil
	}
	sc.r.RemoteAddr = d.RemoteAddr().String()
	req := rt.id.identify(&sc.r)
	req.Shape = rt.shapeOf(&sc.r)
	req.Key = strings.Clone(req.Key) // a partition keeps it; it must not keep the head
	permit, ticket, err := rt.gate.Offer(rt.gate.Now(), req)
	if err == nil {
		d.s.hot.Add(-1)
		d.waiting = admitted{ok: true, req: req, permit: permit, ticket: ticket}
		return false, nil
	}
	rej, ok := errors.AsType[*limiter.Rejection](err)
	if !ok {
		return false, err
	}
	d.s.hot.Store(hotFor)
	rt.saw(&sc.r, err)
	return true, d.refuse(rt, sc, rej, req)
}

// refuse writes the refusal. It returns an error when the connection is to be
// closed.
func (d *doorstep) refuse(rt *route, sc *scratch, rej *limiter.Rejection, req limiter.Request) error {
	now := time.Now()
	if now.Sub(d.touched) > time.Second {
		d.touched = now
		// net/http's own deadlines were for one request, and this is another.
		if d.SetReadDeadline(now.Add(rt.o.IdleTimeout)) != nil || d.SetWriteDeadline(now.Add(rt.o.StreamIdle)) != nil {
			return io.EOF
		}
	}
	sc.write(rt, rej, req, now)
	if _, err := d.Write(sc.out); err != nil {
		return err
	}
	if rej.Reason == labels.Draining {
		return io.EOF
	}
	return nil
}
