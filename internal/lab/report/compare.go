package report

import (
	"math"

	"github.com/admitd/admitd/internal/lab/measure"
)

// Change is a measure that two sets of results do not agree on.
type Change struct {
	Scenario, Variant, Window, Contender, Measure string
	Before, After                                 float64 // means over the seeds
}

// Compare returns the measures whose means differ by more than the results of
// either set differ among their seeds, in the order of before, and how many windows
// of contenders are in both.
func Compare(before, after []*measure.Result) (list []Change, compared int) {
	seen := map[[3]string]bool{}
	for _, r := range before {
		key := [3]string{r.Scenario, r.Variant, r.Contender}
		if seen[key] {
			continue
		}
		seen[key] = true
		old, fresh := same(before, key), same(after, key)
		if len(fresh) == 0 {
			continue
		}
		for i, w := range r.Windows {
			if i >= len(fresh[0].Windows) || fresh[0].Windows[i].Name != w.Name {
				continue
			}
			compared++
			a, b := stats(old, i), stats(fresh, i)
			for _, m := range measure.Names() {
				spread := max(a[m].Max-a[m].Min, b[m].Max-b[m].Min)
				if math.Abs(a[m].Mean-b[m].Mean) > spread {
					list = append(list, Change{key[0], key[1], w.Name, key[2], m, a[m].Mean, b[m].Mean})
				}
			}
		}
	}
	return list, compared
}

// same returns the runs of one contender in one variant.
func same(list []*measure.Result, key [3]string) []*measure.Result {
	var out []*measure.Result
	for _, r := range list {
		if [3]string{r.Scenario, r.Variant, r.Contender} == key {
			out = append(out, r)
		}
	}
	return out
}
