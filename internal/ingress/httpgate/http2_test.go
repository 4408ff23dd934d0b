package httpgate_test

import (
	"crypto/tls"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/limiter"
)

// speak opens a connection of HTTP/2 to the gate.
func (l lane) speak(t *testing.T, addr string, o rawhttp2.Options) *rawhttp2.Conn {
	t.Helper()
	return rawhttp2.Dial(t, l.agree(t, addr), o)
}

// agree opens a connection to the gate on which HTTP/2 is to be spoken.
func (l lane) agree(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, _ := dial(t, addr)
	if l.client == nil {
		return c
	}
	cfg := l.client.Clone()
	cfg.NextProtos = []string{"h2"}
	secure := tls.Client(c, cfg)
	if err := secure.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return secure
}

// frugal is start for a gate whose goroutines end with it. They are counted, so
// that no other test may run at the same time.
func (l lane) frugal(t *testing.T, backend string, p limiter.Policy, o httpgate.Options) *gated {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		if !until(func() bool { return runtime.NumGoroutine() <= before }) {
			stacks := make([]byte, 1<<20)
			t.Errorf("%d goroutines, %d before the gate:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	})
	return l.start(t, backend, p, o)
}

// until reports whether something comes to be so.
func until(ok func() bool) bool {
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// serves fails the test unless the gate answers another client, who may be refused for
// as long as what others have left behind uses the limit up.
func (g *gated) serves(t *testing.T, l lane) {
	t.Helper()
	c := l.speak(t, g.addr, rawhttp2.Options{})
	id := uint32(1)
	c.Ask(id, "GET", "/well")
	got := c.Answer(id)
	for ; got.Status == "503"; got = c.Answer(id) {
		id += 2
		c.Ask(id, "GET", "/well")
	}
	if got.Status != "200" {
		t.Errorf("another client is answered %+v, want 200", got)
	}
}
