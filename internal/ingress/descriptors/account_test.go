package descriptors_test

import (
	"net"
	"runtime"
	"testing"

	"github.com/admitd/admitd/internal/ingress/descriptors"
)

// A quarter is kept from clients, at most 1,024, and what was given back is
// promised again. A client that has no descriptor itself counts all the same.
func TestPromises(t *testing.T) {
	for limit, usable := range map[uint64]int64{0: 0, 3: 3, 80: 60, 128: 96, 4096: 3072, 100_000: 98_976, ^uint64(0): 1<<63 - 1 - 1024} {
		a := descriptors.New(func() uint64 { return limit })
		if got := a.Usable(); got != usable {
			t.Errorf("limit %d: Usable() = %d; want %d", limit, got, usable)
		}
	}
	limit := uint64(8) // 6 for clients
	a := descriptors.New(func() uint64 { return limit })
	pipe, other := net.Pipe()
	defer pipe.Close()
	defer other.Close()
	ask := func(n int64, want bool) {
		t.Helper()
		if got := a.Promise(pipe, n); got != want {
			t.Errorf("Promise(%d) = %v; want %v", n, got, want)
		}
	}
	ask(2, true)
	ask(2, true)
	ask(1, true)
	ask(2, false)
	ask(1, true)
	ask(1, false)
	a.Release(2)
	ask(2, true)
	limit = 16 // an operator has raised it
	ask(6, true)
	ask(1, false)
	limit = 8
	a.Release(6)
	ask(1, false)
}

// Clients that are turned away with a word take a quarter of what is kept, at most
// 64.
func TestGuests(t *testing.T) {
	pipe, other := net.Pipe()
	defer pipe.Close()
	defer other.Close()
	for limit, most := range map[uint64]int{3: 0, 128: 8, 1 << 40: 64} {
		a := descriptors.New(func() uint64 { return limit })
		for range 2 {
			n := 0
			for n <= most && a.Receive(pipe) {
				n++
			}
			if n != most {
				t.Errorf("limit %d: %d guests; want %d", limit, n, most)
			}
			for range n {
				a.Dismiss()
			}
		}
	}
}

// Descriptors that others took are seen by the number of the client's.
func TestNumbersTellOfOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("handles are no small numbers there")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	few := descriptors.New(func() uint64 { return 3 }) // standard input, output and error
	if few.Promise(c, 1) || few.Receive(c) {
		t.Error("a client has one of three descriptors")
	}
	many := descriptors.New(func() uint64 { return 1 << 20 })
	if !many.Promise(c, 1) || !many.Receive(c) {
		t.Error("a client has none of a million descriptors")
	}
}
