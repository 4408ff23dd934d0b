package ingress

import (
	"context"
	"errors"
	"io"
	"net"
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
