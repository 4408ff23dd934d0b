package scenario

import (
	"slices"
	"time"

	"github.com/admitd/admitd/clock"
)

// What [Gating.Abandon] and [BackendSpec.Cancelled] can be.
const (
	finishes  = "finish"
	cancels   = "cancel"
	Stops     = "stops"
	continues = "continues"
)

// Gating is the part of a [Scenario] about what stands before the backend.
type Gating struct {
	// BackendTimeout is when the gate gives the backend up; 0 = 30 s, the default
	// of the configuration.
	BackendTimeout Duration `yaml:"backendTimeout"`
	// Abandon is what our gates do with work whose caller has gone: finish or
	// cancel. "" = what the documents advise: cancel where the backend stops then.
	Abandon string `yaml:"abandon"`
	// Gates before the one backend, each with limits of its own; 0 = 1.
	Gates int `yaml:"gates"`
	// Told says that the gates are told how many they are, as `gates` in the
	// configuration does.
	Told bool `yaml:"told"`
	// ToldAs is how many they are told that they are, right or wrong; 0 = what Told
	// says.
	ToldAs int `yaml:"toldAs"`
	// ToldOthers says that the gates are told of others, and not of how many, as
	// `gates: auto` in the configuration does.
	ToldOthers bool `yaml:"toldOthers"`
	// Shared says that the gates share one limit, as `shared: true` beside a limit
	// does.
	Shared bool `yaml:"shared"`
	// Total bounds the permits of each gate over all keys; 0 = none.
	Total int `yaml:"total"`
	// Share is one when all keys of a gate are under one limit; own or "" = each has
	// its own.
	Share string `yaml:"share"`
	// Classes says that requests have a class: the noisy tenant's are sheddable, all
	// others critical.
	Classes bool `yaml:"classes"`
	// ReloadEvery applies the policy again and again; 0 = never.
	ReloadEvery Duration `yaml:"reloadEvery"`
	// Clock is a fault of the gates' clocks, as [clock.ParseFault] reads it.
	Clock string `yaml:"clock"`
}

// validate reports what is wrong with the gates.
func (g *Gating) validate(p *problems) {
	p.need(g.BackendTimeout > 0, "backendTimeout must be > 0 (%v)", time.Duration(g.BackendTimeout))
	p.need(slices.Contains([]string{"", finishes, cancels}, g.Abandon), "abandon must be finish or cancel (%s)", g.Abandon)
	p.need(g.Gates <= 64, "gates must be at most 64 (%d)", g.Gates)
	p.need(g.ToldAs >= 0 && g.ToldAs <= 64, "toldAs must be in [0, 64] (%d)", g.ToldAs)
	p.need(!g.ToldOthers || !g.Told && g.ToldAs == 0, "toldOthers excludes told and toldAs")
	p.need(slices.Contains([]string{"", "own", "one"}, g.Share), "share must be own or one (%s)", g.Share)
	if _, err := clock.ParseFault(g.Clock); err != nil {
		*p = append(*p, err)
	}
}
