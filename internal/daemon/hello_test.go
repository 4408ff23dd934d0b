package daemon_test

import (
	"strconv"
	"testing"

	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/testkit/configured"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Anyone may ask for /v1/hello, without admission, so it must cost the same
// however many partitions clients have made. It once read the whole status.
func TestHelloIsCheap(t *testing.T) {
	cfg := configured.From(t, "ingresses:\n- { name: a, partitions: { total: 30 } }\n- { name: b, partitions: { total: 50 } }")
	d, err := daemon.Standing(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Ingresses {
		g := d.Gate(cfg.Ingresses[i].Name)
		for k := range 500 {
			p, _ := g.TryAdmit(g.Now(), limiter.Request{Key: strconv.Itoa(k)})
			p.End(limiter.Ignored)
		}
	}
	h, serving := d.Hello("")
	if want := (labels.Load{Limit: 80, Headroom: 80}); !serving || *h.Load != want {
		t.Errorf("hello of all says %+v, %v; want the totals of both, %+v", *h.Load, serving, want)
	}
	if n := testing.AllocsPerRun(100, func() { d.Hello("a") }); n > 20 {
		t.Errorf("hello allocates %v times with 500 partitions; want a few", n)
	}
}
