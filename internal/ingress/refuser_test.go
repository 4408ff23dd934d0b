package ingress_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/descriptors"
)

// verger says why, and who has a reserved place.
type refusingHandler struct{ in chan bool }

func (v refusingHandler) ServeConn(_ context.Context, c net.Conn) {
	v.in <- ingress.Reserved(c)
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}

func (refusingHandler) TurnAway(c net.Conn, why ingress.Refusal) {
	_, _ = io.WriteString(c, why.String())
}

// The last places are marked, and who finds none is told why.
func TestReservedPlacesAndLastWords(t *testing.T) {
	v := refusingHandler{in: make(chan bool, 8)}
	s := ingress.NewServer("test", v, ingress.Options{Connections: ingress.Connections{MaxOpen: 3, Reserved: 1}})
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	for i, want := range []bool{false, false, true} {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := <-v.in; got != want {
			t.Errorf("connection %d: Reserved() = %v; want %v", i, got, want)
		}
	}
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if word, err := io.ReadAll(c); string(word) != "max_open" || err != nil {
		t.Errorf("the fourth connection read %q, %v; want max_open", word, err)
	}
	cancel()
	if got := s.Status(); got.Refused[ingress.OverOpen] != 1 || got.Accepted != 3 {
		t.Errorf("Status() = %+v; want 3 accepted and 1 refused", got)
	}
	_ = c.Close()
}

// Who is turned away while the last descriptors are in use is not told why: in the
// second that the refuser waits for each, 64 of a flood held what is kept for the
// gate's own way to its backend.
func TestNoLastWordsForTheLastDescriptors(t *testing.T) {
	if !ingress.CanSeePeerGone {
		t.Skip("on Linux only")
	}
	for name, maxOpen := range map[string]int{"free places": 8, "no place": 1} {
		t.Run(name, func(t *testing.T) {
			v := refusingHandler{in: make(chan bool, 1)}
			var few atomic.Bool
			account := descriptors.New(func() uint64 {
				if few.Load() {
					return 0
				}
				return 1 << 40
			})
			s := ingress.NewServer("test", v, ingress.Options{Descriptors: account, Connections: ingress.Connections{MaxOpen: maxOpen}})
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			first, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			go func() { _ = s.Serve(t.Context(), ln) }() // ends with the test
			<-v.in
			few.Store(true)
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if word, err := io.ReadAll(c); len(word) > 0 || err != nil {
				t.Errorf("read %q, %v; want the end and no word", word, err)
			}
			if got := s.Status(); got.Refused[ingress.OverOpen]+got.Refused[ingress.NoDescriptors] != 1 || got.Accepted != 1 {
				t.Errorf("Status() = %+v; want 1 accepted and 1 refused", got)
			}
		})
	}
}
