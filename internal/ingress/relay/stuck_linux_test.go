package relay_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
)

// A backend that read no more was cut off by the one who watches all sessions. To
// close its connection he waited for the side that read it, which waited for a
// client that read no more either, and whom nobody was left to cut off: no
// connection could begin or end at that gate any more.
func TestNeitherEndReads(t *testing.T) {
	h := dorm(t, relay.Options{Patience: 1600 * time.Millisecond}) // a look every 100 ms, of which 16 end the session
	client, backend, ended := h.asked()
	flood := make([]byte, 16<<20) // more than lies in the sockets between two
	say(client, toyMessage('q', flood))
	for from := h.relay.Looks(); h.relay.Looks() < from+4; time.Sleep(time.Millisecond) { // the backend is the first who is late
	}
	say(backend, toyMessage('i', flood))

	if err := <-ended; !errors.Is(err, relay.ErrStalled) && !errors.Is(err, relay.ErrBackendGone) {
		t.Errorf("the session ended with %v, want a stall", err)
	}
	other, over := h.sleepy(&toy{})
	say(other, toyMessage('q', nil))
	next := h.backend()
	hear(t, next)
	say(next, toyMessage('a', nil))
	hear(t, other)
	for _, c := range []net.Conn{client, backend, other} {
		_ = c.Close()
	}
	<-over
	h.over()
}

// What is told to be written of a message that a peer does not take is what the peer
// gets: the watch tells by it whether a connection stands still.
func TestPartsThatWereWritten(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	b := make([]byte, 32<<20)
	n, err := relay.Write(c, b)
	if !errors.Is(err, os.ErrDeadlineExceeded) || n <= 0 || n >= len(b) {
		t.Fatalf("%d of %d bytes, %v; want a part of them", n, len(b), err)
	}
	_ = c.Close()
	if got, err := io.Copy(io.Discard, peer); err != nil || got != int64(n) {
		t.Errorf("the peer got %d bytes, %v; want the %d that were told", got, err, n)
	}
}
