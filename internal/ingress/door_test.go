package ingress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/descriptors"
	"github.com/admitd/admitd/limiter"
)

// A burst comes in at once, the queue pays its debt to the nanosecond, and
// what does not fit in the queue is closed at once.
func TestRateAdmitsQueuesRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := newEvents()
		door := ingress.NewDoor("test", ingress.Options{
			Observer:    seen,
			Connections: ingress.Connections{Rate: limiter.Rate{PerSecond: 10, BurstSeconds: 0.2, QueueDepth: 2}},
		})
		pipes := newPipeListener()
		ln := door.Listen(ctx, pipes)
		start := time.Now()
		cameIn := make(chan time.Duration, 8)
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				cameIn <- time.Since(start)
				defer c.Close()
			}
		}()
		var clients []net.Conn
		for range 5 {
			clients = append(clients, pipes.dial())
		}
		synctest.Wait()
		if _, err := clients[4].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("fifth client: read = %v, want EOF at once", err)
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("fifth client was closed after %v, want at once", got)
		}
		st := door.Status()
		if st.Open != 2 || st.Queued != 2 || st.Tokens != -2 {
			t.Errorf("open %d, queued %d, tokens %v; want 2, 2, -2", st.Open, st.Queued, st.Tokens)
		}
		want := []time.Duration{0, 0, 100 * time.Millisecond, 200 * time.Millisecond}
		var got []time.Duration
		for range want {
			got = append(got, <-cameIn)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("times of entry (-want +got):\n%s", diff)
		}
		if st := door.Status(); st.Accepted != 4 || st.Refused[ingress.OverRate] != 1 || st.Queued != 0 {
			t.Errorf("accepted %d, refused %v, queued %d; want 4, one over rate, 0", st.Accepted, st.Refused, st.Queued)
		}
		ln.Close()
	})
}

// Closing the listener turns away who waits, and gives the tokens back.
func TestCloseTurnsAwayTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := ingress.NewDoor("test", ingress.Options{
			Connections: ingress.Connections{Rate: limiter.Rate{PerSecond: 1, QueueDepth: 5}},
		})
		pipes := newPipeListener()
		ln := door.Listen(t.Context(), pipes)
		go func() {
			for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
				defer c.Close()
			}
		}()
		pipes.dial()
		waiting := pipes.dial()
		synctest.Wait()
		ln.Close()
		if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("waiting client: read = %v, want EOF", err)
		}
		synctest.Wait()
		st := door.Status()
		if st.Refused[ingress.Draining] != 1 || st.Tokens != 0 || st.Open != 0 {
			t.Errorf("refused %v, tokens %v, open %d; want one draining, 0, 0", st.Refused, st.Tokens, st.Open)
		}
	})
}

// A client that leaves the queue, even with bytes of its request unread, gives
// its token back, so that those behind it are not charged for it.
func TestAbandonedClientReturnsToken(t *testing.T) {
	for name, say := range map[string]string{"silent": "", "spoke": "GET / HTTP/1.1\r\n"} {
		t.Run(name, func(t *testing.T) {
			seen := newEvents()
			s, addr := start(t, handlerFunc(echo), ingress.Options{
				Observer:    seen,
				Connections: ingress.Connections{Rate: limiter.Rate{PerSecond: 0.01, BurstSeconds: 100, QueueDepth: 3}},
			})
			dial(t, addr)
			<-seen.opened
			waiting := dial(t, addr)
			if _, err := io.WriteString(waiting, say); err != nil {
				t.Fatal(err)
			}
			waiting.Close()
			if why := <-seen.refused; why != ingress.Abandoned {
				t.Errorf("refused for %v, want abandoned", why)
			}
			if tokens := s.Status().Tokens; tokens < 0 {
				t.Errorf("tokens = %v after the only debtor left, want >= 0", tokens)
			}
		})
	}
}

// The bound on open connections holds for everybody and frees a place when a
// connection closes.
func TestMaxOpen(t *testing.T) {
	seen := newEvents()
	s, addr := start(t, handlerFunc(echo), ingress.Options{
		Observer: seen,
		Connections: ingress.Connections{
			MaxOpen: 2, Exempt: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		},
	})
	first := dial(t, addr)
	dial(t, addr)
	<-seen.opened
	<-seen.opened
	if c := dial(t, addr); answers(c) {
		t.Error("third connection answers, want it refused")
	}
	if why := <-seen.refused; why != ingress.OverOpen {
		t.Errorf("refused for %v, want max_open", why)
	}
	first.Close()
	<-seen.closed
	if c := dial(t, addr); !answers(c) {
		t.Error("connection after one was closed does not answer")
	}
	if got := s.Status().Open; got != 2 {
		t.Errorf("open = %d, want 2", got)
	}
}

// Exempt clients need no token; others are refused when there is none.
func TestExemptions(t *testing.T) {
	for _, tc := range []struct {
		exempt string
		want   bool
	}{{"127.0.0.0/8", true}, {"10.0.0.0/8", false}} {
		seen := newEvents()
		s, addr := start(t, handlerFunc(echo), ingress.Options{
			Observer: seen,
			Connections: ingress.Connections{
				Rate: limiter.Rate{PerSecond: 0.001}, Exempt: []netip.Prefix{netip.MustParsePrefix(tc.exempt)},
			},
		})
		dial(t, addr)
		<-seen.opened
		if got := answers(dial(t, addr)); got != tc.want {
			t.Errorf("exempt %s: second connection answers = %v, want %v", tc.exempt, got, tc.want)
		}
		s.Limit(ingress.Connections{})
		if !answers(dial(t, addr)) {
			t.Errorf("exempt %s: connection after the rate was lifted does not answer", tc.exempt)
		}
	}
}

// Clients do not get the last descriptors of the process. When they did, requests
// that were let in failed for want of one to the backend, which was blamed, and
// nobody could ask the admin port why.
func TestTheLastDescriptors(t *testing.T) {
	if !ingress.CanSeePeerGone {
		t.Skip("on Linux only")
	}
	for limit, refused := range map[uint64]uint64{0: 1, 1 << 40: 0} {
		door := ingress.NewDoor("test", ingress.Options{Descriptors: descriptors.New(func() uint64 { return limit })})
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ln := door.Listen(t.Context(), inner)
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if refused == 0 {
			in, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			_ = in.Close()
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) { // by the door, or just now
			t.Errorf("limit %d: read = %v, want the end", limit, err)
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		if st := door.Status(); st.Refused[ingress.NoDescriptors] != refused || st.Open != 0 {
			t.Errorf("limit %d: %d refused, %d open; want %d, 0", limit, st.Refused[ingress.NoDescriptors], st.Open, refused)
		}
	}
}
