package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/report"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// A criterion that is not kept fails the report, and only for those it is about.
func TestVerdicts(t *testing.T) {
	s, err := scenario.Parse([]byte(smallest + `
pass:
  - { measure: good, atLeast: 0.5, by: [vegas, aimd] }
  - { measure: good, atLeast: 0.5, by: [best] }
  - { measure: good, atMost: 0.5, by: [none] }
  - { measure: good, atLeast: 0.5, by: [fixed] }
  - { measure: good, atLeast: 0.5 }
  - { measure: ofCeiling, atLeast: 0.5, by: [vegas] }
`))
	if err != nil {
		t.Fatal(err)
	}
	result := func(contender string, seed uint64, good int) *measure.Result {
		return &measure.Result{
			Scenario: "x", Variant: "default", Contender: contender, Seed: seed,
			Windows: []measure.Window{{Name: "all", Seconds: 10, Capacity: 100, Offered: 100, Good: good}},
		}
	}
	rep := report.New([]*scenario.Scenario{s}, []*measure.Result{
		result("vegas", 1, 40), result("vegas", 2, 70), result("aimd", 1, 20), result("aimd", 2, 30), result("none", 1, 0),
	})
	var got []string
	for _, v := range rep.Verdicts {
		got = append(got, v.String())
	}
	want := []string{
		"FAIL  x, default: good ≥ 0.5 by vegas, aimd; kept by vegas",
		"pass  x, default: good ≥ 0.5 by best; kept by vegas",
		"pass  x, default: good ≤ 0.5 by none; kept by none, aimd",
		"----  x, default: good ≥ 0.5 by fixed; kept by vegas",
		"----  x, default: good ≥ 0.5 by knee+queue; kept by vegas",
		"----  x, default: ofCeiling ≥ 0.5 by vegas; its ceiling is not known",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if failed := rep.Failed(); len(failed) != 1 {
		t.Errorf("%d criteria failed; want 1", len(failed))
	}
}

// A target that is known to be missed stays the target. What is reached instead
// must not become less, and what reaches the target is pointed out.
func TestKnown(t *testing.T) {
	for good, want := range map[int]string{
		55: "BETTER  x, a: good ≥ 0.5 by knee+queue; kept by knee+queue; 0.55, and 0.3 is known: it is hard",
		40: "known  x, a: good ≥ 0.5 by knee+queue; kept by nobody; 0.4, and 0.3 is known: it is hard",
		20: "FAIL  x, a: good ≥ 0.5 by knee+queue; kept by nobody; 0.2, and 0.3 is known: it is hard",
	} {
		s := parsed(t, smallest+`
variants: [{ name: a }, { name: b }, { name: c }]
pass: [{ measure: good, atLeast: 0.5, except: [c], known: [{ variants: [a], is: 0.3, why: it is hard }] }]
`)
		result := func(variant string) *measure.Result {
			w := measure.Window{Name: "all", Seconds: 10, Capacity: 100, Offered: 100, Good: good}
			return &measure.Result{Scenario: "x", Variant: variant, Contender: "knee+queue", Seed: 1, Windows: []measure.Window{w}}
		}
		rep := report.New([]*scenario.Scenario{s}, []*measure.Result{result("a"), result("b"), result("c")})
		if len(rep.Verdicts) != 2 {
			t.Fatalf("%d verdicts; want one on a, one on b, and none on c", len(rep.Verdicts))
		}
		if got := rep.Verdicts[0].String(); got != want {
			t.Errorf("the verdict is\n%s; want\n%s", got, want)
		}
		if v := rep.Verdicts[1]; v.Known != nil || v.Pass != (good >= 50) {
			t.Errorf("%v good in the variant that has no mark: %s", good, v.String())
		}
		var b bytes.Buffer
		if err := rep.WriteTargets(&b); err != nil {
			t.Fatal(err)
		}
		word := strings.ReplaceAll(strings.ToLower(strings.Fields(want)[0]), "fail", "**no**")
		if line := " | – | " + word + " | 0.3 is kept; it is hard |"; !strings.Contains(b.String(), line) {
			t.Errorf("the table of targets lacks %q:\n%s", line, b.String())
		}
	}
}

// smallest is the least that a scenario needs.
const smallest = `
name: x
about: y
for: 10s
load: [{ at: 0s, load: 1 }]
windows: [{ name: all, from: 0s, to: 10s }]
`

// parsed reads a scenario.
func parsed(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
