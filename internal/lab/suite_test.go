package lab_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/report"
	"github.com/admitd/admitd/internal/lab/scenario"
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
		if changes, _ := report.Compare(results, read); len(changes) != 0 {
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
	runs := 0
	suite := lab.Suite{Scenarios: []*scenario.Scenario{shipped(t, "steady")}, Workers: 1, Progress: func(int, int) { cancel(); runs++ }}
	if _, err := suite.Run(ctx); err == nil {
		t.Error("a suite that was stopped returned results")
	}
	if runs != 1 {
		t.Errorf("%d runs were made; want the one in which it was stopped", runs)
	}
	suite.Variants = []string{"0.1x"}
	if _, err := suite.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing to run") {
		t.Errorf("a suite of nothing: %v", err)
	}
}

// A name that nothing has is told, also where others have one: a contender that was
// misspelt was left out without a word.
func TestSuiteKnowsItsNames(t *testing.T) {
	suite := lab.Suite{Scenarios: []*scenario.Scenario{parsed(t, smallest+"seeds: 1\nscale: 0.1\nvariants: [{ name: a }, { name: b }]\n")}}
	for want, names := range map[string][2]string{
		"":                           {"a", "none"},
		"of [none vegs] is known as": {"a", "none vegs"},
		"of [a c] is known as c":     {"a c", "none"},
		"nothing to run: no variant of [c] or contender of [none]":  {"c", "none"},
		"nothing to run: no variant of [a] or contender of [vegs] ": {"a", "vegs"},
	} {
		suite.Variants, suite.Contenders = strings.Fields(names[0]), strings.Fields(names[1])
		_, err := suite.Run(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("variants %s, contenders %s: %v; want %q", names[0], names[1], err, want)
		}
	}
	suite.Variants, suite.Contenders, suite.More = []string{"a"}, []string{"none", "mine"}, []lab.Contender{{Name: "mine", New: lab.None().New}}
	if results, err := suite.Run(t.Context()); err != nil || len(results) != 2 {
		t.Errorf("one's own contender beside another: %v, %d results", err, len(results))
	}
}

// A suite plays what was chosen: each variant for each contender with each seed, in
// this order whatever ran first, and keeps what happened over time of the first seed.
func TestSuitePlaysWhatWasChosen(t *testing.T) {
	text := smallest + `
scale: 0.2
seeds: 3
variants: [{ name: a, for: 10s }, { name: b }, { name: c, full: true }]
`
	names := func(suite lab.Suite) (list []string) {
		t.Helper()
		told := 0
		suite.Scenarios = []*scenario.Scenario{parsed(t, text)}
		suite.Progress = func(done, of int) { told = of - done }
		results, err := suite.Run(t.Context())
		if err != nil || told != 0 {
			t.Fatalf("%v, and %d runs were not told of", err, told)
		}
		for i, r := range results {
			list = append(list, fmt.Sprintf("%s %s %d", r.Variant, r.Contender, r.Seed))
			if first := i == 0 || results[i-1].Contender != r.Contender || results[i-1].Variant != r.Variant; (r.Series != nil) != first {
				t.Errorf("%s keeps what happened over time: %v", list[i], r.Series != nil)
			}
		}
		return list
	}
	for _, tc := range []struct {
		suite lab.Suite
		want  string
	}{
		{lab.Suite{Contenders: []string{"none"}}, "a none 1, a none 2, a none 3, b none 1, b none 2, b none 3"},
		{lab.Suite{Contenders: []string{"none"}, Seeds: 1, Full: true}, "a none 1, b none 1, c none 1"},
		{lab.Suite{Contenders: []string{"none"}, Seeds: 1, Variants: []string{"c"}}, "c none 1"},
		{lab.Suite{Contenders: []string{"vegas", "none"}, Seeds: 2, FirstSeed: 7, Variants: []string{"b"}, Workers: 3}, "b none 7, b none 8, b vegas 7, b vegas 8"},
		{lab.Suite{Contenders: []string{"mine"}, Seeds: 1, Variants: []string{"a"}, More: []lab.Contender{{Name: "mine", New: lab.None().New}}}, "a mine 1"},
	} {
		if got := strings.Join(names(tc.suite), ", "); got != tc.want {
			t.Errorf("played %s; want %s", got, tc.want)
		}
	}
}
