package descriptors_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/admitd/admitd/internal/ingress/descriptors"
)

// pipes accepts as many connections as it is asked for.
type pipes struct{ left int }

func (p *pipes) Accept() (net.Conn, error) {
	if p.left--; p.left < 0 {
		return nil, net.ErrClosed
	}
	c, _ := net.Pipe()
	return c, nil
}

func (*pipes) Close() error   { return nil }
func (*pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A listener that is no gate's takes its part of what clients may have, and, when it
// is spared some, a quarter of what is kept from them; others are closed. Idle
// connections of the admin port and of the decisions listener used up all
// descriptors, so that no client came in.
func TestListenersShare(t *testing.T) {
	few := func() uint64 { return 32 } // 24 for clients
	for name, tc := range map[string]struct {
		clients int64 // descriptors that are promised already
		share   descriptors.Share
		want    int
		most    int // without clients
	}{
		"its part":                      {0, descriptors.Share{Part: 2}, 12, 12},
		"its part and what is spared":   {0, descriptors.Share{Part: 4, Spare: true}, 6 + 2, 6 + 2},
		"what clients leave":            {20, descriptors.Share{Part: 2}, 4, 12},
		"nothing is left":               {24, descriptors.Share{Part: 2}, 0, 12},
		"nothing is left but the spare": {24, descriptors.Share{Part: 4, Spare: true}, 2, 6 + 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := descriptors.New(few)
			pipe, other := net.Pipe()
			defer pipe.Close()
			defer other.Close()
			if tc.clients > 0 && !a.Promise(pipe, tc.clients) {
				t.Fatal("there are too few to begin with")
			}
			refused := 0
			tc.share.Refused = func() { refused++ }
			source := &pipes{}
			ln := a.Listen(source, tc.share)
			come := func(want int) {
				t.Helper()
				source.left, refused = 30, 0
				var in []net.Conn
				for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
					in = append(in, c)
				}
				if len(in) != want || refused != 30-want {
					t.Errorf("%d came in and %d were refused; want %d and %d", len(in), refused, want, 30-want)
				}
				for _, c := range in {
					_ = c.Close()
					_ = c.Close() // counts once
				}
			}
			come(tc.want)
			come(tc.want) // what was closed is there again
			a.Release(tc.clients)
			come(tc.most) // and all of it when the clients have gone
			if !a.Promise(pipe, 24) {
				t.Error("not all was given back")
			}
		})
	}
}

// Who is accepted already and does nothing makes room for who comes, as long as there
// is anybody.
func TestListenerYields(t *testing.T) {
	var in []net.Conn
	refused := 0
	ln := descriptors.New(func() uint64 { return 8 }).Listen(&pipes{left: 10}, descriptors.Share{Part: 2, Yield: func() bool {
		_ = in[0].Close()
		in = in[1:]
		return true
	}, Refused: func() { refused++ }})
	for range 10 {
		c, err := ln.Accept()
		if err != nil {
			break
		}
		in = append(in, c)
	}
	if len(in) != 3 || refused != 0 {
		t.Errorf("%d are in and %d were refused, want 3 and none", len(in), refused)
	}
	for _, c := range in {
		_ = c.Close()
	}
}

// A server may say that it has said all, and go on reading: net/http does so where it
// answered before it had read the request, so that its answer is not lost in a reset.
func TestListenersHalfClose(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := descriptors.New(nil).Listen(inner, descriptors.Share{Part: 2})
	defer ln.Close()
	c, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	half, ok := in.(interface{ CloseWrite() error })
	if !ok {
		t.Fatal("it cannot say so")
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the client reads %v; want the end", err)
	}
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Fatal(err)
	}
	if n, err := in.Read(make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("the server reads %d, %v; want a byte", n, err)
	}
}
