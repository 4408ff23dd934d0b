package ingress

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// Peek waits, until ctx is done, for the first byte that a client sends and leaves
// it where it is: it is read from the connection that Peek returns, c itself where
// that can be done.
func Peek(ctx context.Context, c net.Conn) (first byte, again net.Conn, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	first, again, err = peek(c)
	if !stop() {
		err = errors.Join(err, ctx.Err())
	}
	return first, again, err
}

// peek is Peek for as long as it takes.
func peek(c net.Conn) (first byte, again net.Conn, err error) {
	if b, err, ok := peekRaw(c); ok {
		return b, c, err
	}
	var b [1]byte
	_, err = io.ReadFull(c, b[:])
	return b[0], PushBack(c, b[0]), err
}

// PushBack returns c with a byte that was read of it in front.
func PushBack(c net.Conn, b byte) net.Conn { return &pushedBack{Conn: c, first: []byte{b}} }

// pushedBack is a connection of which the first byte was read.
type pushedBack struct {
	net.Conn
	first []byte
}

// Read implements [io.Reader].
func (p *pushedBack) Read(b []byte) (int, error) {
	if len(p.first) == 0 || len(b) == 0 {
		return p.Conn.Read(b)
	}
	n := copy(b, p.first)
	p.first = p.first[n:]
	return n, nil
}

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
