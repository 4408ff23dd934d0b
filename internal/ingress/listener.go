package ingress

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Backoff after an Accept that failed for want of resources.
const (
	firstBackoff = 5 * time.Millisecond
	lastBackoff  = time.Second
)

// Listener is a net.Listener behind a [Door]: Accept returns only connections
// that came in. Closing a connection gives its place back.
type Listener struct {
	inner  net.Listener
	door   *Door
	ready  chan net.Conn   // what waits for Accept
	hand   func(*conn)     // takes what came in
	ctx    context.Context //nolint:containedctx // the listener's own life: done when it is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup // the acceptor and whoever waits
	err    error          // why accepting stopped; read it after over
	over   chan struct{}  // closed when nothing of the listener runs any more
}

// lastCall is how long a connection that came in as the listener was closed is
// still offered to Accept, so that its client is served and not cut off.
const lastCall = 100 * time.Millisecond

// Listen puts inner behind the door and starts to accept. The listener is
// closed, and inner with it, by Close or when ctx is done.
func (d *Door) Listen(ctx context.Context, inner net.Listener) *Listener {
	return d.listen(ctx, inner, nil)
}

// listen is Listen for whoever takes connections the moment they come in; nil =
// Accept returns them. hand must not wait.
func (d *Door) listen(ctx context.Context, inner net.Listener, hand func(*conn)) *Listener {
	l := &Listener{inner: inner, door: d, ready: make(chan net.Conn), hand: hand, over: make(chan struct{})}
	if hand == nil {
		l.hand = l.offer
	}
	ctx, l.cancel = context.WithCancel(ctx)
	l.ctx = ctx
	context.AfterFunc(ctx, func() { _ = inner.Close() })
	l.wg.Go(l.acceptAll)
	go l.end()
	return l
}

// end says when everybody has gone.
func (l *Listener) end() {
	l.wg.Wait()
	close(l.over)
}

// Accept returns the next connection that came in. After Close it returns those
// that came in before it, and then [net.ErrClosed].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.over:
		if err := l.failed(); err != nil {
			return nil, err
		}
		return nil, net.ErrClosed
	}
}

// failed returns, once it is over, why accepting stopped; nil = the listener was
// closed.
func (l *Listener) failed() error {
	if errors.Is(l.err, net.ErrClosed) {
		return nil
	}
	return l.err
}

// Close stops accepting, turns away who is waiting, and returns when nothing
// of the listener runs any more. Connections that came in stay.
func (l *Listener) Close() error {
	l.cancel()
	err := l.inner.Close()
	<-l.over
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Addr returns the address of the inner listener.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// acceptAll accepts until the inner listener fails for good. Nothing in it
// waits for a client: whoever must wait does so in a goroutine of its own, and
// these are bounded by the bound on open connections.
func (l *Listener) acceptAll() {
	defer l.cancel() // who still waits has nobody left to wait for
	backoff := firstBackoff
	for {
		c, err := l.inner.Accept()
		if err != nil {
			if l.ctx.Err() != nil || !transient(err) {
				l.err = err
				return
			}
			l.door.o.Log.Warn("accept failed", slog.String("ingress", l.door.name),
				slog.Duration("retry_in", backoff), slog.Any("error", err))
			idle(l.ctx, backoff)
			backoff = min(2*backoff, lastBackoff)
			continue
		}
		backoff = firstBackoff
		l.take(c)
	}
}

// take lets c in, lets it wait, or turns it away.
func (l *Listener) take(raw net.Conn) {
	c := l.door.enter(raw)
	if c == nil {
		return
	}
	if l.door.rules.Load().proxied {
		if !l.door.believes(c) {
			l.door.turnAway(c, BadProxyHeader)
			return
		}
		l.wg.Go(func() { l.takeProxied(c) })
		return
	}
	owed, ok := l.door.admit(c)
	switch {
	case !ok:
		l.door.turnAway(c, OverRate)
	case owed.wait > 0:
		l.wg.Go(func() { l.takeLater(c, owed) })
	default:
		l.deliver(c)
	}
}

// takeProxied reads the PROXY header before it decides, because exemptions
// are about the client, not the proxy.
func (l *Listener) takeProxied(c *conn) {
	raw := c.Conn // which readProxyHeader replaces
	stop := context.AfterFunc(l.ctx, func() { _ = raw.Close() })
	ok := l.door.readProxyHeader(c)
	switch {
	case !stop():
		l.door.turnAway(c, Draining)
		return
	case !ok:
		l.door.turnAway(c, BadProxyHeader)
		return
	}
	owed, ok := l.door.admit(c)
	if !ok {
		l.door.turnAway(c, OverRate)
		return
	}
	l.takeLater(c, owed)
}

// takeLater waits until the debt is paid.
func (l *Listener) takeLater(c *conn, owed debt) {
	if owed.wait > 0 && !l.door.pay(l.ctx, c, owed) {
		return
	}
	l.deliver(c)
}

// deliver hands over a connection that came in.
func (l *Listener) deliver(c *conn) {
	l.door.opened(c)
	l.hand(c)
}

// offer hands a connection to Accept.
func (l *Listener) offer(c *conn) {
	select {
	case l.ready <- c:
		return
	case <-l.ctx.Done():
	}
	last := time.NewTimer(lastCall)
	defer last.Stop()
	select {
	case l.ready <- c:
	case <-last.C:
		_ = c.Close() // nobody will take it
	}
}

// transient reports whether an Accept that failed may succeed later.
func transient(err error) bool {
	var ne net.Error
	//nolint:staticcheck // Temporary is deprecated for lack of meaning, except here: see net/http's own loop
	return errors.As(err, &ne) && ne.Temporary()
}
