package lab_test

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/lab"
	"github.com/admitd/admitd/lab/measure"
	"github.com/admitd/admitd/lab/report"
	"github.com/admitd/admitd/lab/scenario"
)

// short returns the targets of the product, in fewer seeds than the suite has.
func short(t *testing.T) ([]*scenario.Scenario, []*measure.Result) {
	t.Helper()
	scenarios := []*scenario.Scenario{shipped(t, "steady"), shipped(t, "brownout"), shipped(t, "baseline")}
	suite := lab.Suite{
		Scenarios: scenarios, Seeds: 2, Variants: []string{"0.6x", "2x", "10x", "no retries", "+40ms"},
		Contenders: []string{"none", "vegas", "knee+queue"},
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
	rep := report.New(scenarios, results)
	judged := 0
	for _, v := range rep.Verdicts {
		if v.Judged {
			judged++
		}
	}
	if judged < 9 {
		t.Errorf("%d criteria were judged; want at least 9", judged)
	}
	for _, v := range rep.Failed() {
		t.Errorf("not kept: %s, values %v", v.String(), v.Values)
	}
	t.Run("page", func(t *testing.T) { checkPage(t, rep) })
	t.Run("document", func(t *testing.T) {
		var b bytes.Buffer
		if err := rep.WriteMarkdown(&b, "the notes"); err != nil {
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
		if err := measure.Write(&b, results); err != nil {
			t.Fatal(err)
		}
		read, err := measure.Read(&b)
		if err != nil || len(read) != len(results) {
			t.Fatalf("%d results were read of %d: %v", len(read), len(results), err)
		}
		if changes := report.Compare(results, read); len(changes) != 0 {
			t.Errorf("a set of results differs from itself: %+v", changes)
		}
	})
}

// checkPage checks that the page needs nothing but itself.
func checkPage(t *testing.T, rep *report.Report) {
	t.Helper()
	var b bytes.Buffer
	if err := rep.WriteHTML(&b); err != nil {
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

// A suite that is stopped stops, and one of nothing says so.
func TestSuiteEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	suite := lab.Suite{Scenarios: []*scenario.Scenario{shipped(t, "steady")}, Workers: 1, Progress: func(int, int) { cancel() }}
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
