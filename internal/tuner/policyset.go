package tuner

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/admitd/admitd/internal/tuner/policy"
)

// worthIt is the share of a value below which a move is not worth making.
const worthIt = 0.005

// policySet are the policies, and what they wish of a setting.
type policySet struct {
	entries []*entry
	past    *past
	trial   TrialOptions
}

// wish is what one policy asks of one setting, and what is left of it.
type wish struct {
	e *entry
	policy.Wish

	value float64 // cut to step and bounds; the setting's own value = it stays
	bound string
}

// wishes asks every policy that moves the setting.
func (c *policySet) wishes(now time.Time, l *managedSetting) []wish {
	var all []wish
	slack := c.past.slack(l)
	for _, e := range c.entries {
		if !e.moves(l) {
			continue
		}
		w := wish{e: e, value: l.current, Wish: policy.Wish{Value: l.current, Why: e.held}}
		if e.held == "" {
			w.Wish = c.ask(l, e, slack)
			w.value, w.bound = cut(&e.Policy, l, w.Value)
			if w.bound != "" && (w.bound == l.bounds.below || w.bound == l.bounds.over) {
				w.Why += fmt.Sprintf("; bounded by %s of the same limit, %.6g", w.bound, w.value)
			}
			if way := direction(w.value / l.current); w.value != l.current && now.Before(e.paused[way]) {
				w.value, w.bound = l.current, ""
				w.Why += "; it waits, as the last such change was taken back"
			}
		}
		all = append(all, w)
	}
	return all
}

func (e *entry) moves(l *managedSetting) bool {
	return slices.Contains(e.levers, l)
}

// ask returns the wish of a policy that holds nothing back: its rule's, or
// where several settings are tried one by one, that of following the first.
func (c *policySet) ask(l *managedSetting, e *entry, slack bool) policy.Wish {
	s := policy.Setting{Value: min(l.current, e.Max), Base: l.base, Min: e.Min, Max: e.Max, Slack: slack}
	if e.Step > 0 { // it goes back step by step, and no further than it may
		s.Base = min(l.base, e.Max)
	}
	if c.follows(e, l) {
		factor := orOne(e.spread[l])
		if factor == 1 {
			return policy.Wish{Value: l.current, Why: "follows " + e.levers[0].at.String() + " once that did well"}
		}
		return policy.Wish{Value: s.Value * factor, Why: "follows " + e.levers[0].at.String()}
	}
	w := e.Rule.Wish(s)
	if e.Step > 0 && l.current > e.Max && w.Value >= s.Value {
		w.Value = l.current // a setting beyond the bounds is not pushed inside
	}
	return w
}

func (c *policySet) follows(e *entry, l *managedSetting) bool {
	return c.trial.Canary && len(e.levers) > 1 && e.levers[0] != l
}

// cut bounds a wish by the policy's step and bounds, and by what the configuration
// allows. Bounds do not push: a setting that the file puts beyond them stays until
// a wish moves it inwards. bound says what cut it: step, min, max, or the key of
// the configuration.
func cut(p *Policy, l *managedSetting, want float64) (value float64, bound string) {
	from := min(l.current, p.Max)
	v := want
	switch {
	case math.IsNaN(v), v == l.current, math.Abs(v-l.current) < worthIt*min(l.current, math.MaxFloat64):
		return l.current, ""
	case v > l.current && l.at.unit() == stance:
		return l.current, "mode" // to refuse again is for people to decide
	case p.Step == 0 && v == l.base:
		return v, "" // what the file says needs no bound
	}
	if p.Step > 0 && !math.IsInf(v, 1) {
		if least := from * (1 - p.Step); v < least-1e-9*from {
			v, bound = least, "step"
		}
		if most := from * (1 + p.Step); v > most+1e-9*from {
			v, bound = most, "step"
		}
	}
	up := v > l.current
	v = l.at.round(v, from)
	if up && v > p.Max {
		v, bound = p.Max, "max"
	}
	if !up && v < p.Min {
		v, bound = p.Min, "min"
	}
	if up && v > l.bounds.high {
		v, bound = l.bounds.high, l.bounds.over
	}
	if !up && v < l.bounds.low {
		if v, bound = l.bounds.low, l.bounds.below; bound == "" {
			bound = "min"
		}
	}
	if up != (v > l.current) || v == l.current { // the bounds leave nothing of it
		return l.current, bound
	}
	return v, bound
}

// stands says what stands against a move now; "" = nothing.
func (c *policySet) stands(now time.Time, l *managedSetting, w *wish) string {
	if !l.moved.IsZero() && now.Sub(l.moved) < w.e.Cooldown {
		return "cooldown"
	}
	if w.value < l.current {
		return ""
	}
	lately, _ := c.past.bins(l, now, now)
	judge, _, objective := c.past.judgeBins(l, now, now)
	switch {
	case len(column(lately, goodShare)) < leastBins:
		return "not raised before there is something to compare with"
	case objective > 0 && brokenNow(judge, objective):
		return "not raised while the objective is broken"
	}
	return ""
}

// place says where a value lies between the bounds of a policy.
func place(v float64, p *Policy) float64 {
	if p.Max <= p.Min {
		return 0
	}
	return min(max((v-p.Min)/(p.Max-p.Min), 0), 1)
}

func others(all []wish, winner *entry) []wish {
	var out []wish
	for _, w := range all {
		if w.e != winner {
			out = append(out, w)
		}
	}
	return out
}

func told(all []wish) []WishNow {
	out := make([]WishNow, 0, len(all))
	for _, w := range all {
		out = append(out, WishNow{Policy: w.e.Name, Value: shown(w.value), Why: w.Why})
	}
	return out
}
