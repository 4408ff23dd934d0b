package postgresgate_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// scene is a gate in a bubble, whose backend is played by the test.
type scene struct {
	t     *testing.T
	gate  *limiter.Gate
	s     *postgresgate.Server
	dials chan net.Conn
	drain context.CancelFunc
	ctx   context.Context // of all connections; done when the drain begins
	pids  byte            // of the sessions that [scene.loginNew] began
}

// fixed is a limit that stays.
type fixed int

func (f fixed) Current() int                          { return int(f) }
func (fixed) Observe(int64, time.Duration, int, bool) {}

// policy has a limit that stays, and room for some to wait up to 5 s.
func policy(limit, waiting int) *limiter.Policy {
	return &limiter.Policy{Default: limiter.PartitionPolicy{
		NewLimit: func() limiter.Limit { return fixed(limit) }, QueueDepth: waiting, MaxWait: 5 * time.Second,
	}}
}

func stage(t *testing.T, p *limiter.Policy, o postgresgate.Options) *scene {
	t.Helper()
	return stageBefore(t, limiter.New("pg", p, limiter.Options{}), nil, o)
}

// stageBefore is stage with somebody else who decides; nil = the gate.
func stageBefore(t *testing.T, g *limiter.Gate, d relay.Gate, o postgresgate.Options) *scene {
	t.Helper()
	sc := &scene{t: t, gate: g, dials: make(chan net.Conn, 64)}
	if o.Backends == nil {
		o.Backends = []string{"db:5432"}
	}
	if o.Dial == nil {
		o.Dial = func(context.Context, string) (net.Conn, error) { return sc.pipe(), nil }
	}
	if d == nil {
		d = g
	}
	var err error
	if sc.s, err = postgresgate.New(d, o); err != nil {
		t.Fatal(err)
	}
	sc.ctx, sc.drain = context.WithCancel(t.Context())
	t.Cleanup(sc.drain)
	return sc
}

// pipe returns the gate's end of a connection to the backend.
func (sc *scene) pipe() net.Conn {
	near, far := net.Pipe()
	sc.dials <- far
	return near
}

// enter connects a client. The channel is closed when the gate is done with it.
func (sc *scene) enter() (net.Conn, <-chan struct{}) {
	near, far := net.Pipe()
	ended := make(chan struct{})
	go func() { defer close(ended); sc.s.ServeConn(sc.ctx, far) }()
	sc.t.Cleanup(func() { _ = near.Close() })
	return near, ended
}

// backend returns the backend's end of the next connection.
func (sc *scene) backend() net.Conn {
	c := <-sc.dials
	sc.t.Cleanup(func() { _ = c.Close() })
	return c
}

// login brings a client in, and returns it, its backend and its end.
func (sc *scene) login(parameters ...string) (c, up net.Conn, ended <-chan struct{}) {
	sc.t.Helper()
	return sc.loginWith(nil, parameters...)
}

// loginWith is login with settings that the server reports.
func (sc *scene) loginWith(settings []byte, parameters ...string) (c, up net.Conn, ended <-chan struct{}) {
	sc.t.Helper()
	return sc.loginKey(1, settings, parameters...)
}

// loginNew is login to a process of the backend that no other session has.
func (sc *scene) loginNew() (pid uint32, c, up net.Conn, ended <-chan struct{}) {
	sc.t.Helper()
	sc.pids++
	c, up, ended = sc.loginKey(sc.pids, nil)
	return uint32(sc.pids), c, up, ended
}

func (sc *scene) loginKey(pid byte, settings []byte, parameters ...string) (c, up net.Conn, ended <-chan struct{}) {
	sc.t.Helper()
	c, ended = sc.enter()
	say(c, hello(parameters...))
	up = sc.backend()
	if _, err := readStartup(up); err != nil {
		sc.t.Fatal(err)
	}
	key := "\x00\x00\x00" + string([]byte{pid}) + "secr"
	greeting := script(pg('R', "\x00\x00\x00\x00"), settings, pg('K', key), ready('I'))
	say(up, greeting)
	expect(sc.t, c, greeting)
	synctest.Wait()
	return c, up, ended
}

// held is how many permits are out.
func (sc *scene) held() int {
	for n := range 1000 {
		p, err := sc.gate.TryAdmit(sc.gate.Now(), limiter.Request{MaxWait: -1})
		if err != nil {
			return 1000 - n
		}
		defer p.End(limiter.Ignored)
	}
	return 0
}

// free reports whether a permit is free.
func (sc *scene) free() bool {
	p, err := sc.gate.TryAdmit(sc.gate.Now(), limiter.Request{MaxWait: -1})
	p.End(limiter.Ignored)
	return err == nil
}

// take takes a permit away from everybody.
func (sc *scene) take() limiter.Permit {
	sc.t.Helper()
	p, err := sc.gate.TryAdmit(sc.gate.Now(), limiter.Request{})
	if err != nil {
		sc.t.Fatal(err)
	}
	return p
}

// say writes without waiting for whoever reads.
func say(c net.Conn, b []byte) { go func() { _, _ = c.Write(b) }() }

// expect reads exactly want.
func expect(t *testing.T, c net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, err := readFull(c, got)
	if string(got[:n]) != string(want) {
		t.Fatalf("read %q, %v; want %q", got[:n], err, want)
	}
	_ = c.SetReadDeadline(time.Time{})
}

func readFull(c net.Conn, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = c.Read(b[n:])
		n += k
	}
	return n, err
}

// code reads messages up to a ReadyForQuery, and returns the kinds and the last
// SQLSTATE.
func hear(t *testing.T, c net.Conn) (kinds, state string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	defer c.SetReadDeadline(time.Time{})
	for {
		m, err := readMessage(c)
		if err != nil {
			t.Fatalf("after %q: %v", kinds, err)
		}
		kinds += string(m[:1])
		if m[0] == 'E' {
			state = postgresgate.SQLState(m)
		}
		if m[0] == 'Z' {
			return kinds + string(m[5:]), state
		}
	}
}

// silent fails the test when c has something to read.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	b := make([]byte, 100)
	if n, _ := c.Read(b); n > 0 {
		t.Fatalf("read %q; want nothing", b[:n])
	}
	_ = c.SetReadDeadline(time.Time{})
}
