package httpgate_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// socketlike is a pipe that has a connection of the fast path, as a socket has. What comes over the
// pipe is handed on through a pair of sockets, in the time of the bubble. That its
// client leaves is not seen.
type socketlike struct {
	net.Conn
	in, out int // the pair
}

func newSocketlike(t *testing.T, c net.Conn) *socketlike {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fds[0]); _ = unix.Close(fds[1]) })
	for _, fd := range fds {
		if err := unix.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
	}
	return &socketlike{Conn: c, in: fds[0], out: fds[1]}
}

func (s *socketlike) Read(p []byte) (int, error) {
	if n, err := unix.Read(s.out, p); err == nil && n > 0 {
		return n, nil
	}
	return s.Conn.Read(p)
}

func (s *socketlike) SyscallConn() (syscall.RawConn, error) { return rawSocketlike{s: s}, nil }

type rawSocketlike struct {
	syscall.RawConn
	s *socketlike
}

func (r rawSocketlike) Control(f func(uintptr)) error {
	f(uintptr(r.s.out))
	return nil
}

func (r rawSocketlike) Read(f func(uintptr) bool) error {
	buf := make([]byte, 4<<10)
	for !f(uintptr(r.s.out)) {
		n, err := r.s.Conn.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil {
			err = unix.Shutdown(r.s.in, unix.SHUT_WR)
		} else {
			_, err = unix.Write(r.s.in, buf[:n])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r rawSocketlike) Write(f func(uintptr) bool) error {
	buf := make([]byte, 4<<10)
	for done := false; !done; {
		done = f(uintptr(r.s.out))
		for n, err := unix.Read(r.s.in, buf); err == nil && n > 0; n, err = unix.Read(r.s.in, buf) {
			if _, err := r.s.Write(buf[:n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// refusing serves a pipe, in a bubble, that refuses whatever comes, and returns
// the client's end.
func refusing(t *testing.T, l lane, o httpgate.Options) net.Conn {
	t.Helper()
	_, client := refuser(t, l, o)
	return client
}

// refuser is refusing with the gate.
func refuser(t *testing.T, l lane, o httpgate.Options) (*httpgate.Server, net.Conn) {
	t.Helper()
	p := limiter.Policy{Rate: limiter.Rate{PerSecond: 1e-6}}
	gate := limiter.New("orders", &p, limiter.Options{})
	if permit, _, err := gate.Offer(gate.Now(), limiter.Request{}); err == nil {
		permit.End(limiter.Ignored) // it had the one token
	}
	o.Backend, o.Ingress.TLS = "http://127.0.0.1:1", l.server
	s, err := httpgate.New(gate, o)
	if err != nil {
		t.Fatal(err)
	}
	ln := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.WithoutCancel(t.Context()), ln) }()
	client, server := net.Pipe()
	ln.conns <- newSocketlike(t, server)
	t.Cleanup(func() {
		_ = client.Close()
		_ = s.Drain(context.WithoutCancel(t.Context()))
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, client
}

const bare = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// The first plain request of a connection once had no bound on the writing of its
// answer: a client that did not read held connection and goroutine for good.
func TestFirstAnswerIsBounded(t *testing.T) { inLanes(t, firstAnswerIsBounded) }

func firstAnswerIsBounded(t *testing.T, l lane) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := l.over(refusing(t, l, httpgate.Options{RequestTimeout: time.Second, StreamIdle: time.Second}))
		_, _ = io.WriteString(c, bare)
		time.Sleep(3*time.Second + time.Millisecond)
		synctest.Wait()
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%d bytes came after the bound on writing them, want the connection's end", n)
		}
	})
}

// A connection that had been idle for longer than the bound on writing an answer,
// which was set before it became idle, was once cut off with its next request.
func TestIdleLongerThanAnAnswerMayTake(t *testing.T) { inLanes(t, idleLongerThanAnAnswerMayTake) }

func idleLongerThanAnAnswerMayTake(t *testing.T, l lane) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := l.over(refusing(t, l, httpgate.Options{RequestTimeout: time.Second, StreamIdle: time.Second, IdleTimeout: time.Minute}))
		br := bufio.NewReader(c)
		for i := range 4 {
			_, _ = io.WriteString(c, bare)
			if r, err := readReply(br); err != nil || r.StatusCode != http.StatusTooManyRequests {
				t.Fatalf("request %d: %+v, %v; want a refusal", i, r, err)
			}
			time.Sleep(50 * time.Second)
		}
		time.Sleep(11 * time.Second)
		if _, err := br.ReadByte(); err == nil {
			t.Error("the connection is open after its idle timeout")
		}
	})
}

// A client that ends its side in the same breath as its request is answered, and
// then seen to have ended, long before its connection has been idle for too long.
func TestEndBehindARequest(t *testing.T) { inLanes(t, endBehindARequest) }

func endBehindARequest(t *testing.T, l lane) {
	t.Helper()
	p := limiter.Policy{Rate: limiter.Rate{PerSecond: 1e-6}}
	g := l.start(t, "127.0.0.1:1", p, httpgate.Options{})
	type ending struct {
		c  net.Conn
		br *bufio.Reader
	}
	endings := make([]ending, 0, 20)
	for range cap(endings) {
		c, br := l.dial(t, g.addr)
		_, _ = io.WriteString(c, bare)
		closeWrite(c)
		endings = append(endings, ending{c, br})
	}
	for _, e := range endings {
		_ = e.c.SetReadDeadline(time.Now().Add(patience))
		if _, err := readReply(e.br); err != nil {
			t.Fatalf("the answer: %v", err)
		}
		if _, err := e.br.ReadByte(); !errors.Is(err, io.EOF) {
			t.Fatalf("behind the answer: %v, want the end", err)
		}
	}
}
