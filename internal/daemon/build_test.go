package daemon_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/testkit/configured"
	"github.com/admitd/admitd/limiter"
)

// Every example passes through every constructor.
func TestEveryExampleBuilds(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	protocols := map[string]bool{}
	for _, file := range append(files, "../../examples/systemd/admitd.yaml") {
		cfg, err := config.Load(file, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for i := range cfg.Ingresses {
			in := &cfg.Ingresses[i]
			server, prepare, err := daemon.Build(cfg, in)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			protocols[in.Protocol] = true
			if server != (in.Listen != "") {
				t.Errorf("%s: ingress %s: has a server: %v", file, in.Name, server)
			}
			if server {
				if err := prepare(); err != nil {
					t.Errorf("%s: ingress %s cannot be reloaded: %v", file, in.Name, err)
				}
			}
		}
	}
	if want := map[string]bool{"http": true, "mongodb": true, "postgres": true, "pulsar": true}; !cmp.Equal(want, protocols) {
		t.Errorf("protocols with an example: %v; want %v", protocols, want)
	}
}

// Each algorithm's keys arrive at the algorithm.
func TestLimitsFromConfiguration(t *testing.T) {
	for text, want := range map[string]struct{ limit, fallback int }{
		"{ algorithm: fixed, limit: 33 }":                                                  {33, 20},
		"{ algorithm: aimd, initialLimit: 34, fallback: { limit: 3 } }":                    {34, 3},
		"{ algorithm: vegas, initialLimit: 35 }":                                           {35, 20},
		"{ algorithm: gradient, initialLimit: 36 }":                                        {36, 20},
		"{ algorithm: gradient2, initialLimit: 37, window: { min: 2s, max: 3s } }":         {37, 20},
		"{ algorithm: aimd, minLimit: 40, initialLimit: 40, maxLimit: 40 }":                {40, 20},
		"{ algorithm: gradient2, initialLimit: 300, maxLimit: 300, fallback: {limit: 20}}": {300, 20},
	} {
		p, err := daemon.Policy(configured.Ingress(t, "ingresses: [ { name: jobs, mode: shadow, partitions: { total: 9, max: 8, default: { limit: "+text+" } } } ]"), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := p.Default.NewLimit().Current(); got != want.limit || p.Default.Fallback != want.fallback {
			t.Errorf("%s: limit %d, fallback %d; want %+v", text, got, p.Default.Fallback, want)
		}
		if p.Mode != limiter.Shadow || p.Total != 9 || p.MaxPartitions != 8 {
			t.Errorf("policy = %+v; want shadow, total 9, 8 partitions", p)
		}
	}
}

// Gates that are not counted are one to all but a knee limit, which begins at a quarter.
func TestGatesFromConfiguration(t *testing.T) {
	limits := func(gates string) (p *limiter.Policy) {
		p, err := daemon.Policy(configured.Ingress(t, "ingresses: [ { name: jobs, gates: "+gates+", partitions: { share: own, named: [ { name: still, match: s, limit: { algorithm: vegas } } ], by: 'constant:s' } } ]"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	alone, auto, two := limits("1"), limits("auto"), limits("2")
	for p, want := range map[*limiter.Policy]struct{ gates, limit int }{alone: {1, 20}, auto: {1, 5}, two: {2, 10}} {
		if got := p.Default.NewLimit().Current(); got != want.limit || p.Gates != want.gates {
			t.Errorf("limit %d, gates %d; want %+v", got, p.Gates, want)
		}
	}
	// A limit with another signature is made anew at a reload.
	if alone.Default.Signature == auto.Default.Signature || alone.Named[0].Signature != auto.Named[0].Signature {
		t.Errorf("gates: auto makes of\n%s\n%s\nand of\n%s\n%s", alone.Default.Signature, auto.Default.Signature, alone.Named[0].Signature, auto.Named[0].Signature)
	}
}

// The clock is held to the smallest latency that a limit must tell from others.
// It was not told of any once.
func TestShortest(t *testing.T) {
	cfg := configured.From(t, `
ingresses:
  - name: jobs
    partitions:
      default: { limit: { algorithm: aimd, requestTimeout: 300ms } }
      named: [ { name: quick, limit: { algorithm: aimd, requestTimeout: 5ms } }, { name: other } ]
`)
	if got := daemon.Shortest(cfg); got != 5*time.Millisecond {
		t.Errorf("shortest = %v; want 5ms", got)
	}
}
