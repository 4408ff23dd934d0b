package ingress_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/admitd/admitd/ingress"
)

// sockets returns the two ends of a TCP connection.
func sockets(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); d.Close() })
	return c.(*net.TCPConn), d.(*net.TCPConn)
}

// writeAll writes b with WriteNow, waiting where it must, and returns how much
// went out.
func writeAll(t *testing.T, c *net.TCPConn, b []byte) (sent int, err error) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var end error
	err = raw.Write(func(fd uintptr) bool {
		for sent < len(b) && end == nil {
			n, again, err := ingress.WriteNow(fd, b[sent:])
			if again {
				return false
			}
			sent, end = sent+n, err
		}
		return true
	})
	return sent, errors.Join(err, end)
}

// A message longer than the kernel's buffers arrives whole, and the end of the
// stream is told from a silence.
func TestSocketsNow(t *testing.T) {
	if !ingress.Sockets {
		t.Skip("no descriptors on this system")
	}
	a, b := sockets(t)
	want := bytes.Repeat([]byte("admitted"), 1<<20)
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(b)
		got <- all
	}()
	if n, err := writeAll(t, a, want); n != len(want) || err != nil {
		t.Fatalf("%d of %d bytes were written: %v", n, len(want), err)
	}
	_ = a.CloseWrite()
	if !bytes.Equal(<-got, want) {
		t.Error("other bytes arrived")
	}
	raw, err := a.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var silent bool
	_ = raw.Control(func(fd uintptr) { _, silent, err = ingress.ReadNow(fd, make([]byte, 1)) })
	if !silent || err != nil {
		t.Errorf("a silent peer: again %v, %v", silent, err)
	}
	b.Close()
	n := -1
	err = raw.Read(func(fd uintptr) bool { n, silent, _ = ingress.ReadNow(fd, make([]byte, 1)); return !silent })
	if n != 0 || err != nil {
		t.Errorf("a peer that has gone: %d bytes, %v", n, err)
	}
}

// Who does not read is given up at the deadline, and who has gone at once:
// without a signal that ends the process.
func TestSocketsEnd(t *testing.T) {
	if !ingress.Sockets {
		t.Skip("no descriptors on this system")
	}
	a, b := sockets(t)
	_ = a.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	large := make([]byte, 32<<20)
	if n, err := writeAll(t, a, large); !errors.Is(err, os.ErrDeadlineExceeded) || n == len(large) {
		t.Errorf("a peer that does not read: %d bytes, %v", n, err)
	}
	_ = a.SetWriteDeadline(time.Time{})
	b.Close()
	for {
		if _, err := writeAll(t, a, large[:1]); err != nil {
			if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("a peer that has gone: %v", err)
			}
			return
		}
	}
}
