package daemon_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/daemon/protocol"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/testkit/configured"
	"github.com/admitd/admitd/limiter"
)

// lineGate admits or refuses a line at a time. It stands for a protocol that
// exists nowhere else.
type lineGate struct{ gate *limiter.Gate }

// ServeConn implements [ingress.Handler].
func (g lineGate) ServeConn(ctx context.Context, c net.Conn) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		answer := "served"
		if p, err := g.gate.TryAdmit(g.gate.Now(), limiter.Request{Key: lines.Text()}); err != nil {
			answer = "refused"
		} else {
			p.End(limiter.Success)
		}
		fmt.Fprintln(c, answer)
	}
}

// A protocol that exists nowhere else is one value here and one in config: it
// listens, decides, is reloaded in place and drains without a line anywhere
// else. Each new gate once edited fifteen files.
func TestProtocolIsAValue(t *testing.T) {
	t.Cleanup(config.Register(&config.Protocol{Name: "lines", HostPort: true, By: []config.PartKind{{Name: "line"}}}))
	lines := &protocol.Protocol{Name: "lines"}
	built := 0
	lines.Open = func(k *protocol.Kit) (func(*config.Ingress, *limiter.Gate) (*protocol.Server, error), error) {
		return func(in *config.Ingress, g *limiter.Gate) (*protocol.Server, error) {
			built++
			return lines.Wire(k, in, func(*tls.Config) (ingress.Handler, error) { return lineGate{g}, nil }, nil)
		}, nil
	}
	parse := func(more string) *config.Config {
		t.Helper()
		cfg := configured.From(t, fmt.Sprintf(`{"log": {"level": "error"}, "admin": {"listen": "127.0.0.1:0"}, "ingresses": [{"name": "l",
			"protocol": "lines", "listen": "127.0.0.1:0", "backend": "127.0.0.1:1", "drainTimeout": "1s", %s}]}`, more))
		return cfg
	}
	d, err := daemon.New(parse(`"requests": {"rate": 0.001, "burstSeconds": 1000}`), daemon.Options{Protocols: []*protocol.Protocol{lines}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	select {
	case <-d.Up():
	case err := <-ended:
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", d.Address("l").String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	answers := bufio.NewScanner(c)
	say := func(want string) {
		t.Helper()
		fmt.Fprintln(c, "hello")
		if !answers.Scan() || answers.Text() != want {
			t.Fatalf("answer %q, %v; want %s", answers.Text(), answers.Err(), want)
		}
	}
	say("served")
	say("refused") // the bucket holds one
	if err := d.Apply(ctx, parse(`"partitions": {"by": "line"}`)); err != nil {
		t.Fatal(err)
	}
	say("served") // on the same connection
	if built != 1 {
		t.Errorf("%d servers were built; want 1, for the change can be taken over", built)
	}
	_ = c.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
