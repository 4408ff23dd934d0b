package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/shadow"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// settleEvery is how often candidates play what was decided meanwhile.
const settleEvery = 10 * time.Millisecond

// stages are where the candidates of the configuration play, one per gate that
// has any. It is safe for concurrent use.
type shadowStages struct {
	mu      sync.Mutex // guards the field below
	list    []*stage
	changed chan struct{} // has room for one: there are other stages
}

// stage is the one of an ingress.
type stage struct {
	*shadow.Stage

	ingress string
	gate    *limiter.Gate
}

func newStages() *shadowStages { return &shadowStages{changed: make(chan struct{}, 1)} }

// cast returns the candidates of every ingress.
func (fs *runningIngresses) cast(cfg *config.Config) (map[string][]shadow.Candidate, error) {
	all := map[string][]shadow.Candidate{}
	for i := range cfg.Shadow {
		c := &cfg.Shadow[i]
		in, err := cfg.Candidate(c)
		if err != nil {
			return nil, err
		}
		in.Mode = limiter.Enforce.String() // whatever the gate itself does with what it decides
		p, err := Policy(in, fs.meet)
		if err != nil {
			return nil, fmt.Errorf("shadow %s: %w", c.Name, err)
		}
		all[c.Ingress] = append(all[c.Ingress], shadow.Candidate{Name: c.Name, Policy: p})
	}
	return all, nil
}

// set puts the candidates of an ingress on its stage, and returns it as the
// gate's witness; nil = there are none.
func (st *shadowStages) set(in *config.Ingress, g *limiter.Gate, list []shadow.Candidate) limiter.Witness {
	st.mu.Lock()
	defer st.mu.Unlock()
	var here *stage
	var others []*stage
	for _, s := range st.list {
		if s.ingress != in.Name {
			others = append(others, s)
		} else if s.gate == g {
			here = s
		}
	}
	st.list = others
	if len(list) == 0 {
		return nil
	}
	o := shadow.Options{
		Objective: time.Duration(in.Objective),
		InFlight:  func() int { held, _ := g.Load(); return int(held) },
	}
	if here == nil {
		here = &stage{Stage: shadow.New(o), ingress: in.Name, gate: g}
	}
	here.Apply(o, list)
	st.list = append(st.list, here)
	select {
	case st.changed <- struct{}{}:
	default:
	}
	return here.Stage
}

// keep forgets the stages of ingresses that there are no more.
func (st *shadowStages) keep(running map[string]*runningIngress) {
	st.mu.Lock()
	defer st.mu.Unlock()
	var left []*stage
	for _, s := range st.list {
		if running[s.ingress] != nil {
			left = append(left, s)
		}
	}
	st.list = left
}

// all returns the stages.
func (st *shadowStages) all() []*stage {
	st.mu.Lock()
	defer st.mu.Unlock()
	return append([]*stage(nil), st.list...)
}

// run is the actor that has the candidates play. Without any it sleeps.
func (st *shadowStages) run(ctx context.Context) error {
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	for {
		list := st.all()
		for _, s := range list {
			s.Settle()
		}
		ticks := ticker.C
		if len(list) == 0 {
			ticks = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-st.changed:
		case <-ticks:
		}
	}
}

// reports returns what the candidates of an ingress would have done, or of all
// ("").
func (st *shadowStages) reports(ingress string) []status.Candidate {
	out := []status.Candidate{}
	for _, s := range st.all() {
		if ingress == "" || ingress == s.ingress {
			out = append(out, s.Reports(s.ingress)...)
		}
	}
	return out
}

// shadowCollector reads the candidates when somebody scrapes. Every label value
// comes from the configuration or a closed set.
type shadowCollector struct {
	stages            *shadowStages
	rejected, offered *prometheus.Desc
}

func newShadowCollector(st *shadowStages) *shadowCollector {
	return &shadowCollector{
		stages:   st,
		rejected: prometheus.NewDesc("admitd_shadow_rejected_total", "Requests that a candidate would have rejected.", []string{"candidate", "reason"}, nil),
		offered:  prometheus.NewDesc("admitd_shadow_offered_total", "Requests that a candidate decided on.", []string{"candidate"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *shadowCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.rejected
	ch <- c.offered
}

// Collect implements [prometheus.Collector].
func (c *shadowCollector) Collect(ch chan<- prometheus.Metric) {
	list := c.stages.reports("")
	for i := range list {
		r := &list[i]
		ch <- prometheus.MustNewConstMetric(c.offered, prometheus.CounterValue, float64(r.Offered), r.Name) //nolint:promlinter // as in the tuner's runner's
		for reason, n := range r.Rejected {
			ch <- prometheus.MustNewConstMetric(c.rejected, prometheus.CounterValue, float64(n), r.Name, string(reason)) //nolint:promlinter // as above
		}
	}
}
