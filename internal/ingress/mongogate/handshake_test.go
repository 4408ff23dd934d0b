package mongogate_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// away is a backend that refuses connections for a while.
type away struct {
	sc    *scene
	until time.Duration // since the start; 0 = for ever
	with  error
	start time.Time
	dials atomic.Int64
}

// stageAway is stage with such a backend.
func stageAway(t *testing.T, a *away, o mongogate.Options) *scene {
	t.Helper()
	a.start = time.Now()
	o.Dial = func(context.Context, string) (net.Conn, error) {
		a.dials.Add(1)
		if a.until == 0 || time.Since(a.start) < a.until {
			return nil, a.with
		}
		return a.sc.pipe(), nil
	}
	a.sc = stage(t, &limiter.Policy{}, o)
	return a.sc
}

// ended waits until the gate is done with a connection, and returns after how long.
func (a *away) ended(ended <-chan struct{}) time.Duration {
	<-ended
	return time.Since(a.start)
}

// A hello in front of a server that was away for a second was answered with a closed
// connection: drivers gave their operations up at once, which wait for the server
// when they are connected to it directly. The hello waits, and one of all that wait
// looks for the server.
func TestHelloWaitsForTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{until: time.Second, with: errors.New("connection refused")}
		sc := stageAway(t, a, mongogate.Options{})
		var clients []net.Conn
		for range 20 {
			c, _ := sc.enter()
			say(c, msg(1, 0, cmd("hello")))
			clients = append(clients, c)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(900 * time.Millisecond)
		if n := a.dials.Load(); n != 1+3 { // at 0, 250, 500 and 750 ms
			t.Errorf("%d attempts in 920 ms; want 4", n)
		}
		for _, c := range clients {
			up := sc.backend()
			expectFrame(t, up, msg(1, 0, cmd("hello")))
			say(up, reply(1, ok()))
			defer func() { expectFrame(t, c, reply(1, ok())) }()
		}
		if got := time.Since(a.start); got > a.until+500*time.Millisecond {
			t.Errorf("the last hello was passed after %v; want within 500 ms of the backend's return", got)
		}
	})
}

// The wait is bounded, and there is none where waiting cannot help: a drain, a
// certificate that is not trusted, and commands other than hello.
func TestHelloGivesUp(t *testing.T) {
	refused := errors.New("connection refused")
	for name, tc := range map[string]struct {
		first string
		with  error
		drain time.Duration
		want  time.Duration
	}{
		"after 30 s":            {"hello", refused, 0, 30 * time.Second},
		"legacy name":           {"isMaster", refused, 0, 30 * time.Second},
		"in a drain":            {"hello", refused, 3 * time.Second, 3 * time.Second},
		"certificate":           {"hello", &tls.CertificateVerificationError{Err: refused}, 0, 0},
		"a command without one": {"find", refused, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &away{with: tc.with}
				sc := stageAway(t, a, mongogate.Options{})
				c, ended := sc.enter()
				say(c, msg(1, 0, cmd(tc.first)))
				if tc.drain > 0 {
					time.AfterFunc(tc.drain, sc.drain)
				}
				if got := a.ended(ended); got != tc.want {
					t.Errorf("the connection ended after %v; want %v", got, tc.want)
				}
				if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
					t.Errorf("the client read %d bytes, %v; want the end", n, err)
				}
			})
		})
	}
}

// A client that leaves while its hello waits is noticed.
func TestHelloWaitsForNobody(t *testing.T) {
	s, addr, _ := serve(t, &limiter.Policy{}, mongogate.Options{
		Backends: []string{"db:27017"},
		Dial:     func(context.Context, string) (net.Conn, error) { return nil, errors.New("connection refused") },
	})
	c := dial(t, addr)
	write(t, c, msg(1, 0, cmd("hello")))
	until(t, "the gate has tried", func() bool { return !s.Backends()[0].LastFail.IsZero() })
	c.Close()
	until(t, "the gate forgets the connection", func() bool { return s.Status().Connections == 0 })
}

// What is no request of the protocol was passed on as a message of an unknown opcode,
// and with it what a client and a backend that speak TLS have to say to each other,
// ungated. It reaches no backend, and the log says why.
func TestNoRequestPasses(t *testing.T) {
	begin := func(high byte) []byte {
		return append([]byte{0x16, 3, 1, high, 200, 1, 0, high, 196, 3, 3}, make([]byte, 300_000)...)
	}
	for name, tc := range map[string]struct {
		frame []byte
		want  string
	}{
		"TLS":            {begin(1), "begins TLS"},
		"TLS, long":      {begin(5), "begins TLS"}, // as with post-quantum keys: above the bound of frames
		"unknown opcode": {frame(7, 0, 4242, []byte("whatever")), "opcode 4242"},
		"a reply":        {frame(7, 0, 1, make([]byte, 40)), "opcode 1,"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				sc := stage(t, &limiter.Policy{}, mongogate.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
				c, ended := sc.enter()
				say(c, tc.frame)
				<-ended
				if n := len(sc.dials); n != 0 {
					t.Errorf("%d connections to the backend; want none", n)
				}
				if !strings.Contains(log.String(), tc.want) {
					t.Errorf("the log says %q; want %q", log.String(), tc.want)
				}
			})
		})
	}
}
