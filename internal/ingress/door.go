package ingress

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	pp "github.com/pires/go-proxyproto"

	"github.com/admitd/admitd/limiter"
)

// Door decides which connections come in, and counts them. It is safe for
// concurrent use.
type Door struct {
	name  string
	o     Options // of which Apply replaces some; those are in rules
	rules atomic.Pointer[doorRules]

	scarcer LogLimiter // connections that were refused for want of descriptors

	refuser Refuser // nil = nobody: clients are turned away without a word
	counts  *Counts // of all doors that the ingress has
}

// An Refuser is a [Handler] that tells clients why they are turned away, in the
// words of its protocol.
type Refuser interface {
	// TurnAway tells the client of c, which is closed when it returns and has a
	// deadline of a second. It is called from many goroutines, but for no more
	// than 64 clients at once, fewer where the process has few descriptors: others
	// are turned away without a word, as are those that have the last descriptors.
	TurnAway(c net.Conn, why Refusal)
}

const refuserTimeout = time.Second

// doorRules are what [Door.Apply] and [Door.Limit] replace as a whole.
type doorRules struct {
	Connections
	bucket *limiter.Bucket // nil = unlimited

	tls       *tls.Config // nil = plain TCP
	expires   func() time.Time
	proxied   bool // a PROXY header is demanded
	proxyFrom []netip.Prefix
}

// Status is a snapshot of a door and of the counts of its ingress, each exact by
// itself.
type Status struct {
	Open     int64           // connections that are in
	Queued   int64           // connections waiting for a token
	MaxOpen  int64           // the bound on both
	Accepted uint64          // connections that came in, since the start
	Refused  []uint64        // connections refused since the start, indexed by [Refusal]
	Tokens   float64         // tokens left, negative when owed; +Inf when unlimited
	Bucket   *limiter.Bucket // where they are; nil = unlimited

	// Certificate is when the certificate of the listener ceases to be valid; zero = it has
	// none, or Options.Expires does not tell.
	Certificate time.Time

	Responses []uint64       // of the backends, since the start, indexed by [Response]
	Attempts  []uint64       // requests whose clients say which attempt they are, since the start, indexed by [Attempt]
	Invalid   []InvalidCount // requests that the gate answered because they could not be forwarded; without zeros
}

// NewDoor returns a door. name is the ingress's, for logs.
func NewDoor(name string, o Options) *Door {
	d := &Door{name: name, o: o.WithDefaults()}
	d.counts = d.o.Counts
	d.Apply(o)
	return d
}

// Apply replaces TLS, ProxyProtocol, ProxyFrom and Connections for connections that
// come from now on, as [Door.Limit] does; all other options stay as they were.
func (d *Door) Apply(o Options) {
	d.replace(&doorRules{Connections: o.Connections, tls: o.TLS, expires: o.Expires, proxied: o.ProxyProtocol, proxyFrom: o.ProxyFrom})
}

// Limit replaces the limits. Connections that are in stay, also above a lower
// bound; the tokens that are left stay, up to the new burst.
func (d *Door) Limit(c Connections) {
	next := *d.rules.Load()
	next.Connections, next.bucket = c, nil
	d.replace(&next)
}

// replace puts other rules in force, with the bucket of those before.
func (d *Door) replace(next *doorRules) {
	now, c := d.o.Clock.Now(), &next.Connections
	old := d.rules.Load()
	switch {
	case c.Rate.PerSecond <= 0:
	case old != nil && old.bucket != nil:
		next.bucket = old.bucket
		if old.Rate != c.Rate {
			next.bucket.SetRate(c.Rate, now)
		}
	default:
		next.bucket = limiter.NewBucket(c.Rate, now)
	}
	d.rules.Store(next)
}

// Status returns the door's counts.
func (d *Door) Status() Status {
	l := d.rules.Load()
	s := Status{MaxOpen: l.maxOpen(), Tokens: l.bucket.Tokens(d.o.Clock.Now()), Bucket: l.bucket}
	if l.expires != nil {
		s.Certificate = l.expires()
	}
	d.counts.status(&s)
	return s
}

// enter takes a place for c under the bound on open connections, and the process's
// on descriptors. When there is none it closes c and returns nil.
func (d *Door) enter(c net.Conn) *conn {
	l := d.rules.Load()
	open := d.counts.open.Add(1)
	if open > l.maxOpen() {
		d.counts.open.Add(-1)
		d.refuse(c, OverOpen)
		return nil
	}
	if !d.provide(c) {
		d.counts.open.Add(-1)
		d.Count(c, NoDescriptors)
		d.show(c, OverOpen)
		return nil
	}
	return &conn{Conn: c, door: d, kept: open > l.ordinary()}
}

// provide reports whether the process has the descriptors for c, and logs now and
// then that it has not.
func (d *Door) provide(c net.Conn) bool {
	if d.o.Descriptors.Promise(c, int64(d.o.PerClient)) {
		return true
	}
	if n := d.scarcer.Due(d.o.Clock.Now()); n > 0 {
		d.o.Log.Warn("connections refused: the process runs out of file descriptors", slog.String("ingress", d.name),
			slog.Int64("connections", n), slog.Int64("usable", d.o.Descriptors.Usable()), slog.Int("per_client", d.o.PerClient))
	}
	return false
}

// admit spends a token for c, on credit when the queue has room. It returns
// how long c must wait before it comes in.
func (d *Door) admit(c *conn) (debt, bool) {
	l := d.rules.Load()
	if l.bucket == nil || In(l.Exempt, ClientAddr(c)) {
		return debt{}, true
	}
	paid, wait, refused := limiter.Bill{{Bucket: l.bucket, Tokens: 1}}.Pay(d.o.Clock.Now(), 0)
	if refused != nil {
		refused.Miss(1)
	}
	return debt{paid: paid, wait: wait}, refused == nil
}

// debt is a token that was borrowed, if there is a wait.
type debt struct {
	paid limiter.Receipt
	wait time.Duration
}

// pay waits until the debt is paid and reports whether c may come in. When the
// client goes away first, or ctx is done, the token goes back.
func (d *Door) pay(ctx context.Context, c *conn, owed debt) bool {
	d.counts.queued.Add(1)
	defer d.counts.queued.Add(-1)
	why, ok := watch(ctx, c.Conn, owed.wait)
	if ok {
		owed.paid.Settle()
		return true
	}
	owed.paid.Refund()
	d.turnAway(c, why)
	return false
}

// opened counts a connection that came in.
func (d *Door) opened(c *conn) {
	c.in = true
	d.counts.accepted.Add(1)
	d.o.Observer.Opened()
}

// turnAway closes a connection that had a place.
func (d *Door) turnAway(c *conn, why Refusal) {
	d.Count(c.Conn, why)
	d.show(c, why)
}

// refuse closes a connection that never had a place.
func (d *Door) refuse(c net.Conn, why Refusal) {
	d.Count(c, why)
	d.show(c, why)
}

// show closes a connection, after the refuser had a word with its client, unless it
// would take descriptors that others need as long.
func (d *Door) show(c net.Conn, why Refusal) {
	if d.refuser == nil || why != OverRate && why != OverOpen && why != Draining || !d.o.Descriptors.Receive(c) {
		_ = c.Close() // nothing to be done: the client is turned away
		return
	}
	go d.tellRefusal(c, why)
}

// tellRefusal lets the refuser speak to one client.
func (d *Door) tellRefusal(c net.Conn, why Refusal) {
	defer d.o.Descriptors.Dismiss()
	defer c.Close()
	if c.SetDeadline(time.Now().Add(refuserTimeout)) == nil {
		d.refuser.TurnAway(c, why)
	}
}

// Count counts a refusal, also of a connection that came in and whose handshake
// failed. It does not close c.
func (d *Door) Count(c net.Conn, why Refusal) {
	d.counts.refused[why].Add(1)
	d.o.Observer.Refused(why)
	d.o.Log.Debug("connection refused", slog.String("ingress", d.name),
		slog.String("reason", why.String()), slog.String("client", c.RemoteAddr().String()))
}

// believes reports whether c comes from somebody who may say who the client is.
func (d *Door) believes(c *conn) bool {
	from := d.rules.Load().proxyFrom
	if len(from) == 0 {
		return true
	}
	if _, local := c.RemoteAddr().(*net.UnixAddr); local {
		return true // the socket's permissions say who
	}
	return In(from, ClientAddr(c))
}

// readProxyHeader reads the PROXY header and takes the client's address from
// it. It reports whether there was a valid one in time, which names an IP address
// or none: the path of a Unix socket is up to whoever sends it, and would go with
// line breaks and all wherever an address goes.
func (d *Door) readProxyHeader(c *conn) bool {
	if c.SetReadDeadline(time.Now().Add(preludeTimeout)) != nil {
		return false
	}
	proxied := pp.NewConn(c.Conn, pp.WithPolicy(pp.REQUIRE))
	header := proxied.ProxyHeader()
	if header == nil || !header.Command.IsLocal() && !isTCP(header.SourceAddr) {
		return false
	}
	if c.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	c.Conn = proxied
	return true
}

// isTCP reports whether a is an IP address with a port, and no zone, which is text.
func isTCP(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.Zone == "" && (len(tcp.IP) == net.IPv4len || len(tcp.IP) == net.IPv6len)
}

// ClientAddr returns the client's address without its port, the zero Addr when it
// is not an IP address.
func ClientAddr(c net.Conn) netip.Addr {
	switch a := c.RemoteAddr().(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap()
	case nil:
		return netip.Addr{}
	default:
		ap, err := netip.ParseAddrPort(a.String())
		if err != nil {
			return netip.Addr{}
		}
		return ap.Addr().Unmap()
	}
}
