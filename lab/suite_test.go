package lab_test

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/lab"
)

// short returns the targets of the product, in fewer seeds than the suite has.
func short(t *testing.T) ([]*lab.Scenario, []*lab.Result) {
	t.Helper()
	scenarios := []*lab.Scenario{scenario(t, "steady"), scenario(t, "brownout"), scenario(t, "baseline")}
	suite := lab.Suite{
		Scenarios: scenarios, Seeds: 2, Variants: []string{"0.6x", "2x", "10x", "no retries", "+40ms"},
		Contenders: []string{"none", "fixed", "vegas", "gradient", "knee+queue"},
	}
	results, err := suite.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return scenarios, results
}

// The short form of the suite: the targets are reached by the default, the model
// collapses without a gate, and the report shows it.
func TestTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds, and minutes with the race detector")
	}
	scenarios, results := short(t)
	report := lab.NewReport(scenarios, results)
	judged := 0
	for _, v := range report.Verdicts {
		if v.Judged {
			judged++
		}
	}
	if judged < 9 {
		t.Errorf("%d criteria were judged; want at least 9", judged)
	}
	for _, v := range report.Failed() {
		t.Errorf("not kept: %s, values %v", v.String(), v.Values)
	}
	t.Run("page", func(t *testing.T) { checkPage(t, report) })
	t.Run("document", func(t *testing.T) {
		var b bytes.Buffer
		if err := report.WriteMarkdown(&b, "the notes"); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"| twice the load |", "the notes", "| vegas |", "| +40ms | falseRefused (settled) ≤ 0.01 | knee+queue | yes |"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("the document lacks %q", want)
			}
		}
	})
	t.Run("results", func(t *testing.T) {
		var b bytes.Buffer
		if err := lab.WriteResults(&b, results); err != nil {
			t.Fatal(err)
		}
		read, err := lab.ReadResults(&b)
		if err != nil || len(read) != len(results) {
			t.Fatalf("%d results were read of %d: %v", len(read), len(results), err)
		}
		if changes := lab.Compare(results, read); len(changes) != 0 {
			t.Errorf("a set of results differs from itself: %+v", changes)
		}
	})
}

// checkPage checks that the page needs nothing but itself.
func checkPage(t *testing.T, report *lab.Report) {
	t.Helper()
	var b bytes.Buffer
	if err := report.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"var uPlot=function", "MIT License", `"contender":"vegas"`, `"limit":[`, "default-src 'none'"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if found := regexp.MustCompile(`(?i)<(script|img|link|iframe)[^>]*\s(src|href)=|@import|url\(|fetch\(|XMLHttpRequest`).FindString(page); found != "" {
		t.Errorf("the page asks for something else: %q", found)
	}
}

// A criterion that is not kept fails the report, and only for those it is about.
func TestVerdicts(t *testing.T) {
	s, err := lab.ParseScenario([]byte(smallest + `
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
	result := func(contender string, seed uint64, good int) *lab.Result {
		return &lab.Result{
			Scenario: "x", Variant: "default", Contender: contender, Seed: seed,
			Windows: []lab.WindowResult{{Name: "all", Seconds: 10, Capacity: 100, Offered: 100, Good: good}},
		}
	}
	report := lab.NewReport([]*lab.Scenario{s}, []*lab.Result{
		result("vegas", 1, 40), result("vegas", 2, 70), result("aimd", 1, 20), result("aimd", 2, 30), result("none", 1, 0),
	})
	var got []string
	for _, v := range report.Verdicts {
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
	if failed := report.Failed(); len(failed) != 1 {
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
		result := func(variant string) *lab.Result {
			w := lab.WindowResult{Name: "all", Seconds: 10, Capacity: 100, Offered: 100, Good: good}
			return &lab.Result{Scenario: "x", Variant: variant, Contender: "knee+queue", Seed: 1, Windows: []lab.WindowResult{w}}
		}
		report := lab.NewReport([]*lab.Scenario{s}, []*lab.Result{result("a"), result("b"), result("c")})
		if len(report.Verdicts) != 2 {
			t.Fatalf("%d verdicts; want one on a, one on b, and none on c", len(report.Verdicts))
		}
		if got := report.Verdicts[0].String(); got != want {
			t.Errorf("the verdict is\n%s; want\n%s", got, want)
		}
		if v := report.Verdicts[1]; v.Known != nil || v.Pass != (good >= 50) {
			t.Errorf("%v good in the variant that has no mark: %s", good, v.String())
		}
		var b bytes.Buffer
		if err := report.WriteTargets(&b); err != nil {
			t.Fatal(err)
		}
		word := strings.ReplaceAll(strings.ToLower(strings.Fields(want)[0]), "fail", "**no**")
		if line := " | – | " + word + " | 0.3 is kept; it is hard |"; !strings.Contains(b.String(), line) {
			t.Errorf("the table of targets lacks %q:\n%s", line, b.String())
		}
	}
}

// Compare tells what changed by more than the seeds differ.
func TestCompare(t *testing.T) {
	result := func(seed uint64, good, refused int) *lab.Result {
		return &lab.Result{Scenario: "x", Variant: "v", Contender: "c", Seed: seed, Windows: []lab.WindowResult{
			{Name: "all", Seconds: 1, Capacity: 100, Offered: 100, Good: good, Refused: refused},
		}}
	}
	before := []*lab.Result{result(1, 50, 10), result(2, 52, 30)}
	after := []*lab.Result{result(1, 60, 20), result(2, 61, 25)}
	var changed []string
	for _, c := range lab.Compare(before, after) {
		changed = append(changed, c.Measure)
	}
	slices.Sort(changed)
	if diff := cmp.Diff([]string{"good", "goodput"}, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

// A suite that is stopped stops, and one of nothing says so.
func TestSuiteEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	suite := lab.Suite{Scenarios: []*lab.Scenario{scenario(t, "steady")}, Workers: 1, Progress: func(int, int) { cancel() }}
	begin := time.Now()
	if _, err := suite.Run(ctx); err == nil {
		t.Error("a suite that was stopped returned results")
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it stopped after %v", took)
	}
	suite.Variants = []string{"0.1x"}
	if _, err := suite.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing to run") {
		t.Errorf("a suite of nothing: %v", err)
	}
}
