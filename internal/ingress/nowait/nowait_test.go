//go:build unix

package nowait_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/admitd/admitd/internal/ingress/nowait"
)

// pair returns two sockets that are connected and never block.
func pair(t *testing.T) (a, b uintptr) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		t.Cleanup(func() { _ = unix.Close(fd) })
		if err := unix.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
	}
	return uintptr(fds[0]), uintptr(fds[1])
}

func TestWhatASocketHas(t *testing.T) {
	a, b := pair(t)
	buf := make([]byte, 8)
	if n, err := nowait.Receive(a, buf); n != 0 || err != nil {
		t.Errorf("Receive of nothing = %d, %v; want 0, nil", n, err)
	}
	if !nowait.IsQuiet(a) {
		t.Error("a socket on which nothing came is not quiet")
	}
	if n, err := nowait.Send(b, []byte("hello")); n != 5 || err != nil {
		t.Fatalf("Send = %d, %v; want 5, nil", n, err)
	}
	if nowait.IsQuiet(a) {
		t.Error("a socket on which something came is quiet")
	}
	if n, err := nowait.Receive(a, buf[:3]); n != 3 || err != nil || string(buf[:3]) != "hel" {
		t.Errorf("Receive = %d, %v, %q; want 3, nil and the first bytes", n, err, buf[:3])
	}
	if n, err := nowait.Receive(a, buf); n != 2 || err != nil || string(buf[:2]) != "lo" {
		t.Errorf("Receive = %d, %v, %q; want the rest, after IsQuiet took nothing", n, err, buf[:2])
	}
	if err := unix.Shutdown(int(b), unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	if n, err := nowait.Receive(a, buf); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("Receive at the end = %d, %v; want 0, EOF", n, err)
	}
	if nowait.IsQuiet(a) {
		t.Error("a socket that has ended is quiet")
	}
}

// Sending into a socket that nobody reads ends with no room, not with a wait.
func TestNoRoom(t *testing.T) {
	a, b := pair(t)
	sent, block := 0, bytes.Repeat([]byte("x"), 64<<10)
	for {
		n, err := nowait.Send(a, block)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		sent += n
	}
	got := 0
	for got < sent {
		n, err := nowait.Receive(b, block)
		if n == 0 || err != nil {
			t.Fatalf("Receive = %d, %v after %d of %d bytes", n, err, got, sent)
		}
		got += n
	}
	_ = unix.Shutdown(int(a), unix.SHUT_WR)
	if _, err := nowait.Send(a, block); !errors.Is(err, unix.EPIPE) {
		t.Errorf("Send after the end: %v, want EPIPE", err)
	}
}
