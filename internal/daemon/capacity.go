package daemon

import (
	"fmt"
	"time"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/fleet/pool"
	"github.com/admitd/admitd/limiter"
)

// shareBackend puts the partitions of a policy under one limit, which is found from
// all that goes to the backend as lead says it (ADR 33). A partition whose limit is
// knee has none of its own then: its maxLimit bounds what it may hold.
func shareBackend(p *limiter.Policy, in, lead *config.Ingress, tune func(*algorithms.Settings)) error {
	s := commonSettings(lead)
	p.Common = &limiter.CommonLimit{Signature: fmt.Sprintf("%+v", s), Fallback: lead.Partitions.Default.Limit.Fallback.Limit}
	if tune != nil {
		tune(&s)
	}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("the limit of all partitions: %w", err)
	}
	p.Common.NewLimit = func() limiter.Limit { return mustLimit(s) }
	joinCommon(&p.Default, &in.Partitions.Default.Limit)
	for i := range p.Named {
		joinCommon(&p.Named[i], &in.Partitions.Named[i].Limit)
	}
	return nil
}

// initialKnee is the least with which a common limit begins.
const initialKnee = 20

// commonSettings returns the settings of the limit of all who share the backend of an
// ingress.
func commonSettings(in *config.Ingress) algorithms.Settings {
	s := algorithms.Settings{
		Algorithm: algorithms.KindKnee, Objective: time.Duration(in.Objective),
		Gates: max(int(in.Gates), 1), Others: in.Gates == config.Auto, Queued: queued(in),
	}
	if l := &in.Partitions.Default.Limit; l.Algorithm == algorithms.KindKnee {
		s.InitialLimit, s.MinLimit = l.InitialLimit, l.MinLimit
		if !in.Partitioned() { // it is the bound of what all do
			s.MaxLimit = l.MaxLimit
		}
	}
	// A fixed limit is what somebody knows of the backend: the common one begins there.
	if l := &in.Partitions.Default.Limit; l.Algorithm == algorithms.KindFixed {
		s.InitialLimit = min(max(l.Limit, initialKnee), unboundedKnee())
	}
	if s.MaxLimit > 0 {
		s.InitialLimit = min(s.InitialLimit, s.MaxLimit)
	}
	return s
}

// joinCommon takes the limit of a partition away that the common one stands for.
func joinCommon(p *limiter.PartitionPolicy, l *config.Limit) {
	if l.Algorithm != algorithms.KindKnee {
		return
	}
	p.NewLimit, p.Signature = nil, ""
	if l.MaxLimit < unboundedKnee() {
		p.MaxInFlight = l.MaxLimit
	}
}

// unboundedKnee is the maxLimit of a limit for which nothing was said.
func unboundedKnee() int {
	for _, row := range algorithms.Rows() {
		for _, key := range row.Keys {
			if most, ok := key.Default.(int); ok && row.Name == algorithms.KindKnee && key.Name == "maxLimit" {
				return most
			}
		}
	}
	return 0
}

// capacities are the backends that several ingresses stand before. They are
// guarded by runningIngresses.change.
type capacities struct {
	backends map[string]*limiter.Backend // by address
	of       map[string]capacity         // by ingress, of the configuration that is planned
}

// capacity is what an ingress shares with others.
type capacity struct {
	backend *limiter.Backend
	lead    *config.Ingress // the first of those who share: the common limit is as it says
}

// plan finds out who shares a backend with whom in a configuration.
func (c *capacities) plan(cfg *config.Config) {
	groups := map[string][]*config.Ingress{}
	for i := range cfg.Ingresses {
		if in := &cfg.Ingresses[i]; in.Partitions.Share == config.ShareBackend && in.Backend != "" {
			groups[in.BackendAddress()] = append(groups[in.BackendAddress()], in)
		}
	}
	c.of = map[string]capacity{}
	kept := map[string]*limiter.Backend{}
	for address, group := range groups {
		if len(group) < 2 {
			continue
		}
		b := c.backends[address]
		if b == nil {
			b = &limiter.Backend{}
		}
		kept[address] = b
		for _, in := range group {
			c.of[in.Name] = capacity{backend: b, lead: group[0]}
		}
	}
	c.backends = kept
}

// poolCommon makes the common limit one that all gates of the fleet share, if the
// configuration says so.
func (fs *runningIngresses) poolCommon(in *config.Ingress, p *limiter.Policy) {
	if c, ok := fs.capacities.of[in.Name]; ok {
		in = c.lead
	}
	if p.Common == nil || !in.Partitions.Default.Limit.Shared {
		return
	}
	s := commonSettings(in)
	p.Common.Signature += " shared"
	p.Common.NewLimit = fs.pooled(s)
}

// pooled returns what makes this gate's part of a limit of all gates.
func (fs *runningIngresses) pooled(s algorithms.Settings) func() limiter.Limit {
	s.Gates, s.Others = 1, false // who they are is seen
	fs.meet(&s)
	return func() limiter.Limit {
		return pool.New(pool.Options{Gates: fs.sharers, Exact: s.Algorithm == algorithms.KindFixed, Make: func(initial, gates, least int) pool.Algorithm {
			return mustLimit(partOf(s, initial, gates, least))
		}})
	}
}
