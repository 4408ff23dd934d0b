package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/admitd/admitd/internal/lab/scenario"
)

// judge decides about one criterion in one variant; mark is what is known of it,
// nil = nothing.
func judge(scenario string, v *Variant, c *scenario.Criterion, mark *scenario.Known) Verdicts {
	out := Verdicts{
		Scenario: scenario, Variant: v.Name, Criterion: c.String(), Why: c.Why, By: c.Who(), Values: map[string]float64{}, Known: mark,
		measure: c.Measure, window: max(slices.Index(v.Windows, c.Window), 0),
	}
	for _, row := range v.Rows {
		value := row.Windows[out.window][c.Measure].Mean
		out.Values[row.Contender] = value
		if c.Holds(value) {
			out.Passing = append(out.Passing, row.Contender)
		}
	}
	ran, kept := true, true
	for _, name := range out.By {
		r, k := out.keeps(name)
		ran, kept = ran && r, kept && k
	}
	unknown := c.Measure == "ofCeiling" && slices.ContainsFunc(v.Rows, func(r Row) bool { return r.Windows[out.window][c.Measure].Mean < 0 })
	switch {
	case !ran:
		out.State = stateNotRun
	case unknown:
		out.State, out.Passing = stateUnknown, nil
	case kept && mark != nil:
		out.State = stateBetter
	case kept:
		out.State = stateKept
	case mark != nil && c.Weakened(mark).Holds(out.Values[out.By[0]]):
		out.State = stateKnown
	default:
		out.State = stateMissed
	}
	out.Judged = ran && !unknown
	out.Pass = out.Judged && out.State != stateMissed
	return out
}

// keeps reports whether a name of [scenario.Criterion.By] ran, and whether it keeps the
// target.
func (v *Verdicts) keeps(name string) (ran, kept bool) {
	if name != scenario.Best {
		_, ran = v.Values[name]
		return ran, slices.Contains(v.Passing, name)
	}
	for _, n := range append([]string{scenario.Queued}, scenario.Ours()...) {
		r, k := v.keeps(n)
		ran, kept = ran || r, kept || k
	}
	return ran, kept
}

// String returns the verdict as one line.
func (v *Verdicts) String() string {
	word := map[string]string{
		stateKept: "pass", stateMissed: "FAIL", stateKnown: "known", stateBetter: "BETTER", stateUnknown: "----", stateNotRun: "----",
	}[v.State]
	line := fmt.Sprintf("%s  %s, %s: %s by %s; ", word, v.Scenario, v.Variant, v.Criterion, strings.Join(v.By, ", "))
	if v.State == stateUnknown {
		return line + "its ceiling is not known"
	}
	line += "kept by " + orNobody(v.Passing)
	if v.Known != nil && v.State != stateNotRun {
		line += fmt.Sprintf("; %.4g, and %g is known: %s", v.Values[v.By[0]], v.Known.Is, v.Known.Why)
	}
	return line
}

// orNobody joins names.
func orNobody(names []string) string {
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, ", ")
}

// States of a verdict.
const (
	stateKept    = "yes"
	stateMissed  = "no"
	stateKnown   = "known"      // the target is missed, by no more than is known
	stateBetter  = "better"     // the target is reached where it was known to be missed
	stateUnknown = "no ceiling" // there is nothing to compare with
	stateNotRun  = "not run"
)
