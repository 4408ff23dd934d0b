package protocol_test

import (
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/internal/daemon/protocol"
	"github.com/admitd/admitd/internal/ingress/descriptors"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/configured"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// All ingresses of a process share its descriptors, of which a client of a wire
// gate takes two, though it has said nothing yet: many that spoke all at once found
// none left for the way to the backend.
func TestClientsTakeDescriptors(t *testing.T) {
	account := descriptors.New(func() uint64 { return 1 << 20 })
	kit := &protocol.Kit{
		Log: slog.New(slog.DiscardHandler), Clock: clock.New(clock.Options{}), Descriptors: account,
		Register:     func(...prometheus.Collector) error { return nil },
		Hello:        func(string) (labels.Hello, bool) { return labels.Hello{}, true },
		Own:          func(string) func(time.Duration) { return nil },
		TopKeys:      func(string) *topkeys.Board { return nil },
		HTTPObserver: func(string) httpgate.Observer { return nil },
	}
	opened, err := protocol.OpenAll(kit, protocol.All())
	if err != nil {
		t.Fatal(err)
	}
	pipe, other := net.Pipe()
	defer pipe.Close()
	defer other.Close()
	for name, backend := range map[string]string{"http": "http://127.0.0.1:1", "mongodb": "127.0.0.1:1", "postgres": "127.0.0.1:1", "pulsar": "127.0.0.1:1"} {
		before := free(account, pipe)
		in := configured.Ingress(t, fmt.Sprintf(`ingresses: [{ name: a, protocol: %s, listen: "127.0.0.1:0", backend: %q }]`, name, backend))
		s, err := opened[name].Build(in, limiter.New("a", &limiter.Policy{}, limiter.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(t.Context(), ln) }()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		for s.Connections().Accepted == 0 { // it is on its way through the door
			time.Sleep(time.Millisecond)
		}
		want := int64(2)
		if name == "http" {
			want = 1
		}
		if got := before - free(account, pipe); got != want {
			t.Errorf("%s: a client that connects takes %d descriptors; want %d", name, got, want)
		}
		_ = c.Close()
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if got := free(account, pipe); got != before {
			t.Errorf("%s: %d descriptors are free after it left; want %d", name, got, before)
		}
	}
}

// free returns how many descriptors nobody was promised.
func free(a *descriptors.Account, c net.Conn) (n int64) {
	for step := a.Usable(); step > 0; step /= 2 {
		for a.Promise(c, step) {
			n += step
		}
	}
	a.Release(n)
	return n
}
