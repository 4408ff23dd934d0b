package lab_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/report"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// Every shipped scenario is valid, says what it is about and judges something.
func TestShippedScenarios(t *testing.T) {
	list, err := lab.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("scenarios/*.yaml")
	if err != nil || len(files) != len(list) {
		t.Errorf("%d scenarios are shipped of %d files (%v)", len(list), len(files), err)
	}
	for _, s := range list {
		if len(s.Pass) == 0 {
			t.Errorf("%s has no pass criteria", s.Name)
		}
		for i := range s.Pass {
			if c := &s.Pass[i]; !slices.ContainsFunc(s.Variants, func(v scenario.Variant) bool { return c.AppliesTo(&v) }) {
				t.Errorf("%s: %s is about no variant", s.Name, c)
			}
		}
	}
}

// What a search has found is valid, judges the default, and is named like no scenario
// of the suite.
func TestWorstScenarios(t *testing.T) {
	list, err := lab.Worst()
	if err != nil {
		t.Fatal(err)
	}
	suite, err := lab.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	readme := document(t, "README.md")
	for _, s := range list {
		if len(s.Pass) != 1 || slices.ContainsFunc(suite, func(o *scenario.Scenario) bool { return o.Name == s.Name }) {
			t.Errorf("%s has %d criteria, or the name of another", s.Name, len(s.Pass))
		}
		if !strings.Contains(readme, "\n| "+s.Name+" |") {
			t.Errorf("the documents do not say how bad %s is", s.Name)
		}
	}
}

// document returns the text of a document of the lab.
func document(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../docs/lab", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// imagined is a report on all that is shipped, as if one contender had played it.
func imagined(t *testing.T) *report.Report {
	t.Helper()
	scenarios, err := lab.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	var results []*measure.Result
	for _, s := range scenarios {
		for i := range s.Variants {
			r := &measure.Result{Scenario: s.Name, Variant: s.Variants[i].Name, Contender: scenario.Queued}
			for _, w := range s.Apply(&s.Variants[i]).Windows {
				r.Windows = append(r.Windows, measure.Window{Name: w.Name, Seconds: 1, Capacity: 1})
			}
			results = append(results, r)
		}
	}
	if err := report.Fit(scenarios, results); err != nil {
		t.Fatal(err)
	}
	return report.New(scenarios, results)
}

// The documents that are checked in know every scenario, and every target in every
// variant that has one: who adds or renames one plays it, too.
func TestDocumentsKnowEveryScenario(t *testing.T) {
	rep, results, targets := imagined(t), document(t, "results.md"), document(t, "targets.md")
	for _, s := range rep.Scenarios {
		if !strings.Contains(results, "\n### "+s.Name+"\n\n"+s.About+"\n") {
			t.Errorf("results.md does not know the scenario %s, or what it is about", s.Name)
		}
	}
	for _, v := range rep.Verdicts {
		if slices.Contains(v.By, scenario.Queued) && !strings.Contains(targets, "\n| "+v.Scenario+" | "+v.Variant+" | "+v.Criterion+" |") {
			t.Errorf("targets.md does not know %s, %s: %s", v.Scenario, v.Variant, v.Criterion)
		}
	}
}

// Each row of the table of what happens to a user is of a scenario, a variant, a window
// and a criterion that there are: where one was renamed, its row would be left out
// without a word.
func TestHeadlinesAreThere(t *testing.T) {
	var b bytes.Buffer
	if err := imagined(t).WriteHeadlines(&b, nil); err != nil {
		t.Fatal(err)
	}
	titles := func(text string) (list []string) {
		for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(text, -1) {
			list = append(list, row[1])
		}
		return list
	}
	table, _, _ := strings.Cut(document(t, "results.md"), "## What it means")
	got, want := titles(b.String()), titles(table)
	if !slices.Equal(got, want) || len(want) < 15 {
		t.Errorf("the rows are %q; the document has %q", got, want)
	}
}

// The scenario that the documents show can be copied: it is read, has what its comments
// say, and its criterion can be judged; so are the lines that they show of others.
func TestDocumentedScenario(t *testing.T) {
	readme := document(t, "README.md")
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(readme, -1)
	if len(blocks) < 2 {
		t.Fatalf("%d blocks of YAML in the documents", len(blocks))
	}
	s, err := scenario.Parse([]byte(blocks[0][1]))
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := s.Variant("default"); !ok || s.Name != "checkout" || v.Backend.Workers != 8 || len(s.Pass) != 1 {
		t.Errorf("the scenario of the documents is %+v", s)
	}
	if _, err := scenario.Parse([]byte(smallest + "variants: [{ name: 1 x 2ms }]\npass:\n" + blocks[1][1])); err != nil {
		t.Errorf("a criterion of the documents: %v", err)
	}
	for _, name := range measure.Names() {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(readme) {
			t.Errorf("the documents do not name the measure %s", name)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(readme, -1) {
		keys, _, _ := strings.Cut(row[1], "`: `") // what follows stands in a list of theirs
		for _, key := range regexp.MustCompile("`([a-zA-Z.]+)").FindAllStringSubmatch(keys, -1) {
			path := strings.Split(key[1], ".")
			line := path[len(path)-1] + ": nonsense"
			for _, above := range slices.Backward(path[:len(path)-1]) {
				line = above + ": { " + line + " }"
			}
			if _, err := scenario.Parse([]byte(smallest + line + "\n")); err != nil && strings.Contains(err.Error(), "unknown field") {
				t.Errorf("the documents name the key %s: %v", key[1], err)
			}
		}
	}
}
