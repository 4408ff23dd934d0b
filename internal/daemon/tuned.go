package daemon

import (
	"context"
	"time"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/tuner"
	"github.com/admitd/admitd/limiter"
)

// tuned is the daemon as the tuner sees it. It implements [tuner.Gate].
type tunerGate struct {
	settings *settings

	read     *config.Config // sections were made of it
	sections map[string]map[string]any
}

// Read implements [tuner.Gate]. It is called by one goroutine.
func (g *tunerGate) Read() tuner.State {
	cfg, generation := g.settings.fronts.inForce()
	if cfg != g.read {
		g.sections = make(map[string]map[string]any, len(cfg.Ingresses))
		for i := range cfg.Ingresses {
			g.sections[cfg.Ingresses[i].Name] = cfg.Ingresses[i].Runtime()
		}
		g.read = cfg
	}
	st := tuner.State{Generation: generation, Settings: g.sections, Vitals: map[string]tuner.Measurements{}}
	switch {
	case g.settings.fronts.isDraining():
		st.Hold = "the daemon drains"
	case !g.settings.clock.Trusted():
		st.Hold = "the clock is not trusted"
	}
	st.Objectives = make(map[string]time.Duration, len(cfg.Ingresses))
	for i := range cfg.Ingresses {
		st.Objectives[cfg.Ingresses[i].Name] = time.Duration(cfg.Ingresses[i].Objective)
	}
	for name := range g.sections {
		if f := g.settings.fronts.front(name); f != nil {
			g.vitals(name, f, st.Vitals)
		}
	}
	return st
}

// vitals reads one gate, as a whole and by the labels of its partitions.
func (g *tunerGate) vitals(name string, f *runningIngress, out map[string]tuner.Measurements) {
	status := f.gate.Page(limiter.StatusOptions{Partitions: limiter.NoKeys}) // the sums
	all := tuner.Measurements{InFlight: status.InFlight, Queued: status.Queued, Latency: tuner.Latencies{}}
	for i := range status.Labels {
		l := &status.Labels[i]
		v := tuner.Measurements{
			Offered: l.Counts.Received(), Refused: refusedOf(&l.Counts), InFlight: l.InFlight, Queued: l.Queued,
			Latency: g.settings.metrics.Latencies(name, l.Label, limiter.Success),
		}
		out[name+"/"+l.Label] = v
		all.Offered += v.Offered
		all.Refused += v.Refused
		for bound, n := range v.Latency {
			all.Latency[bound] += n
		}
	}
	out[name] = all
}

func refusedOf(c *limiter.Counts) (n uint64) {
	for _, r := range c.Rejected {
		n += r
	}
	return n
}

// Patch implements [tuner.Gate].
func (g *tunerGate) Patch(ctx context.Context, generation uint64, ingress, by string, document []byte) error {
	p := admin.Patch{Settings: document}
	if p.By = "the tuner"; by != "" {
		p.By = by + ", by the tuner"
	}
	return g.settings.patchUnlessRead(ctx, generation, ingress, p)
}
