package lab

import (
	"fmt"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/limiter"
)

// tunedName is the name in reports of the fixed limit that an operator who
// knows the model would choose: twice its workers.
const tunedName = "fixed-tuned"

// queuedName is the name in reports of what the configuration has when nothing
// is chosen: knee with the automatic queue. The algorithms by themselves play
// without one.
const queuedName = "knee+queue"

// Ours returns the names of the limiters that the product ships.
func Ours() []string {
	return []string{
		algorithms.KindKnee, algorithms.KindFixed, algorithms.KindAIMD, algorithms.KindVegas, algorithms.KindGradient, algorithms.KindGradient2,
	}
}

// defaults returns what the configuration has when only an algorithm is chosen,
// and the number of gates where they are told.
func (s *Scenario) defaults(kind string) algorithms.Settings {
	a := algorithms.Settings{Algorithm: kind}
	if s.Told {
		a.Gates = s.Gates
	}
	return a
}

// Contenders returns those that the lab knows by itself for a scenario: no gate,
// a fixed limit tuned by hand for the model, ours with their defaults, and the
// default one with a queue.
func Contenders(s *Scenario) []Contender {
	list := []Contender{None(), Fixed(s, tunedName, 2*s.Backend.Workers)}
	for _, kind := range Ours() {
		list = append(list, Gated(kind, s.gatePolicy(s.defaults(kind), false)))
	}
	return append(list, Gated(queuedName, s.gatePolicy(s.defaults(algorithms.KindKnee), true)))
}

// Fixed returns a fixed limit over all gates of a scenario as a contender: each
// has its part, at least 1.
func Fixed(s *Scenario, name string, limit int) Contender {
	each := max(limit/s.Gates, 1)
	return Gated(name, s.gatePolicy(algorithms.Settings{Fixed: algorithms.FixedOptions{Limit: each}}, false))
}

// gatePolicy returns the policy of a gate whose partitions all have the same
// limit, and the automatic queue if they are to have one, with the randomness of
// the limit taken from the world.
func (s *Scenario) gatePolicy(a algorithms.Settings, queue bool) func(*World) *limiter.Policy {
	signature := fmt.Sprintf("%+v", a)
	return func(w *World) *limiter.Policy {
		settings := a
		settings.Vegas.Rand, settings.Gradient.Rand = w.Rand, w.Rand
		return &limiter.Policy{
			Total: s.Total, MaxPartitions: s.Tenants.Max, Gates: a.Gates,
			Default: limiter.PartitionPolicy{Signature: signature, QueueAuto: queue, NewLimit: func() limiter.Limit {
				l, err := algorithms.New(settings)
				if err != nil {
					panic(err) // the defaults are valid: a fault of ours
				}
				return l
			}},
		}
	}
}
