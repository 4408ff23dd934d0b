package ingress

import (
	"context"
	"net"
	"syscall"
	"time"
)

// watch waits for d and reports true, unless the client goes away or ctx is
// done first. It consumes nothing from c. A client that has closed its sending
// side counts as gone: it will not speak our protocols any more.
func watch(ctx context.Context, c net.Conn, d time.Duration) (Refusal, bool) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return idle(ctx, d)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return idle(ctx, d)
	}
	until := time.Now().Add(d)
	if c.SetReadDeadline(until) != nil {
		return Abandoned, false
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	gone := raw.Read(PeerGone)
	stop()
	switch {
	case ctx.Err() != nil:
		return Draining, false
	case gone == nil: // PeerGone said so
		return Abandoned, false
	}
	if c.SetReadDeadline(time.Time{}) != nil {
		return Abandoned, false
	}
	return 0, true
}

// idle waits without watching the client, for connections that cannot be
// watched.
func idle(ctx context.Context, d time.Duration) (Refusal, bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return 0, true
	case <-ctx.Done():
		return Draining, false
	}
}
