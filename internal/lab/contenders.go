package lab

import (
	"fmt"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/limiter"
)

// defaults returns what the configuration has when only an algorithm is chosen,
// and the number of gates, or that there are others, where they are told.
func defaults(s *scenario.Scenario, kind string) algorithms.Settings {
	a := algorithms.Settings{Algorithm: kind, Others: s.ToldOthers}
	switch {
	case s.ToldAs > 0:
		a.Gates = s.ToldAs
	case s.Told:
		a.Gates = s.Gates
	}
	return a
}

// Contenders returns those that the lab knows by itself for a scenario: no gate,
// a fixed limit tuned by hand for the model, ours with their defaults, and the
// default one with a queue.
func Contenders(s *scenario.Scenario) []Contender {
	list := []Contender{None(), Fixed(s, scenario.Tuned, 2*s.Backend.Workers)}
	for _, kind := range scenario.Ours() {
		list = append(list, Gated(kind, gatePolicy(s, defaults(s, kind), false)))
	}
	return append(list, Gated(scenario.Queued, gatePolicy(s, defaults(s, algorithms.KindKnee), true)))
}

// Fixed returns a fixed limit over all gates of a scenario as a contender: each
// has its part, at least 1.
func Fixed(s *scenario.Scenario, name string, limit int) Contender {
	each := max(limit/s.Gates, 1)
	return Gated(name, gatePolicy(s, algorithms.Settings{Keys: algorithms.Keys{Limit: each}}, false))
}

// gatePolicy returns the policy of a gate whose partitions all have the same
// limit, and the automatic queue if they are to have one, with the randomness of
// the limit taken from the world.
func gatePolicy(s *scenario.Scenario, a algorithms.Settings, queue bool) func(*World) *limiter.Policy {
	signature := fmt.Sprintf("%+v", a)
	return func(w *World) *limiter.Policy {
		settings := a
		settings.Rand = w.Rand
		return &limiter.Policy{
			Classes: classes(s), Shared: s.Share == "one", Total: s.Total, MaxPartitions: s.Tenants.Max, Gates: a.Gates,
			Default: limiter.PartitionPolicy{Signature: signature, QueueAuto: queue, NewLimit: func() limiter.Limit {
				if s.Shared && settings.Algorithm != "" { // fixed limits are divided
					return w.share(s.Gates, settings)
				}
				l, err := algorithms.New(settings)
				if err != nil {
					panic(err) // the defaults are valid: a fault of ours
				}
				return l
			}},
		}
	}
}

// classes returns who goes first in a scenario, with the configuration's defaults;
// nil = nobody.
func classes(s *scenario.Scenario) *limiter.Classes {
	if !s.Classes {
		return nil
	}
	return &limiter.Classes{Floor: [4]float64{0.01, 0.01, 0.01, 0.01}}
}
