package postgresgate_test

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/admitd/admitd/ingress/postgresgate"
	"github.com/admitd/admitd/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// plain is a protocol that knows nothing: what the corridor costs alone.
type plain struct{}

func (plain) Size(_ relay.Side, b []byte) (total, need int, err error) { return len(b), len(b), nil }
func (plain) Done(bool) bool                                           { return true }

func (plain) Inspect(*relay.Session, relay.Message) (relay.Verdict, error) {
	return relay.Verdict{}, nil
}

func (plain) Landed(*relay.Session, relay.Message) (relay.Verdict, error) {
	return relay.Verdict{}, nil
}

// idle returns the bytes of heap and of stacks that a connection through serve keeps, both ends of the
// test and the backend's included, after one question and one answer.
func idle(t *testing.T, serve func(near net.Conn, dial relay.DialFunc)) (heap, stack int) {
	t.Helper()
	const warm, n = 20, 200
	backend := listen(t, func(c net.Conn) {
		_, _ = readStartup(c)
		_, _ = c.Write(script(pg('R', "\x00\x00\x00\x00"), pg('K', "\x00\x00\x00\x01secr"), ready('I')))
		_, _ = c.Read(make([]byte, 1))
	})
	awake := func(ctx context.Context, address string) (net.Conn, error) { // the gate cannot read it raw: its side never sleeps
		c, err := backend(ctx, address)
		return struct{ net.Conn }{c}, err
	}
	front := listen(t, func(c net.Conn) { serve(c, awake) })
	var before, after runtime.MemStats
	measure := func(m *runtime.MemStats) {
		for range 6 { // each halves stacks that are too large
			runtime.GC()
		}
		runtime.ReadMemStats(m)
	}
	enter := func() {
		c, err := front(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write(hello("database", "shop", "application_name", "test"))
		for {
			if m, err := readMessage(c); err != nil || m[0] == 'Z' {
				return
			}
		}
	}
	// asleep waits until n more connections than there were have come to rest.
	asleep := func(n, running int) {
		const each = 3 // two of the session, and the backend's of this test
		for deadline := time.Now().Add(30 * time.Second); runtime.NumGoroutine()-running != each*n; runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatalf("%d goroutines for %d connections, want three for each", runtime.NumGoroutine()-running, n)
			}
		}
	}
	running := runtime.NumGoroutine()
	for range warm {
		enter()
	}
	asleep(warm, running) // one that came to rest later would stand for one that had not
	measure(&before)
	for range n {
		enter()
	}
	asleep(warm+n, running)
	measure(&after)
	return int(after.HeapAlloc-before.HeapAlloc) / n, int(after.StackInuse-before.StackInuse) / n
}

// listen serves connections until the test ends, and returns how to get one.
func listen(t *testing.T, serve func(net.Conn)) relay.DialFunc {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go serve(c)
		}
	}()
	var d net.Dialer
	return func(ctx context.Context, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", ln.Addr().String())
	}
}

// An idle connection costs what the corridor's costs, and what has to be known
// of its session: no buffer, no goroutine of its own.
func TestIdleConnectionsCostLittle(t *testing.T) {
	g := limiter.New("pg", policy(9, 0), limiter.Options{})
	corridor := func(c net.Conn, dial relay.DialFunc) {
		hall := relay.New(g, relay.Options{Dialer: relay.NewDialer([]string{"db:1"}, 0, dial)})
		_ = hall.Serve(t.Context(), c, plain{})
	}
	idle(t, corridor) // takes the stacks that earlier tests have left behind, which would cost nothing
	heap, stack := idle(t, corridor)
	gate := func(c net.Conn, dial relay.DialFunc) {
		s, err := postgresgate.New(g, postgresgate.Options{Backends: []string{"db:1"}, Dial: dial})
		if err == nil {
			s.ServeConn(t.Context(), c)
		}
	}
	gateHeap, gateStack := idle(t, gate)
	if heap, stack := idle(t, gate); stack < gateStack {
		gateHeap, gateStack = heap, stack
	}
	t.Logf("the corridor: %d bytes and %d of stack; the gate: %d and %d", heap, stack, gateHeap, gateStack)
	if gateHeap > heap+2<<10 {
		t.Errorf("an idle connection keeps %d bytes, %d in the corridor alone; want at most 2 KiB more", gateHeap, heap)
	}
	if gateStack > stack+8<<10 { // stacks double: those of both goroutines may be the next size, by who had to wait
		t.Errorf("an idle connection keeps %d bytes of stack, %d in the corridor alone", gateStack, stack)
	}
}
