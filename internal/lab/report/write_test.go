package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/report"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// played returns a scenario of two windows, of which one has a ceiling, and what two
// contenders did in two seeds.
func played(t *testing.T) (*scenario.Scenario, []*measure.Result) {
	t.Helper()
	s := parsed(t, `
name: steady
about: it is tried
for: 10s
load: [{ at: 0s, load: 2 }]
trigger: { from: 2s, to: 4s }
windows: [{ name: all, from: 0s, to: 10s }, { name: late, from: 5s, to: 10s }]
variants: [{ name: 2x }]
pass:
  - { measure: ofCeiling, atLeast: 0.9, why: it is possible }
  - { measure: falseRefused, window: late, atMost: 0.01, by: [best], why: it is fair }
`)
	known, err := scenario.ReadCeilings([]byte(`{"steady":{"2x":{"of":"` + identity(t, s) + `","windows":{"all":{"limit":9,"good":80,"refused":0.4}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	known.Know(s)
	var list []*measure.Result
	for _, contender := range []string{"aegis", "knee+queue"} {
		for seed := range 2 {
			good := 700 + 20*seed
			if contender == "aegis" {
				good /= 2
			}
			r := &measure.Result{
				Scenario: "steady", Variant: "2x", Contender: contender, Seed: uint64(seed + 1), Recover: 1.5,
				Windows: []measure.Window{
					{Name: "all", Seconds: 10, Capacity: 100, Offered: 2000, Good: good, Answered: good, Refused: 2000 - good, Attempts: 2100, P50: 0.012, P99: 0.1},
					{Name: "late", Seconds: 5, Capacity: 100, Offered: 1000, FalseRefused: 50 * seed},
				},
			}
			for i := range 6 {
				r.Series = append(r.Series, measure.Step{Offered: 10 * i, Good: 5 * i, Attempts: 11 * i, Limit: i, Inside: 2 * i, QueueAge: float64(i)})
			}
			list = append(list, r)
		}
	}
	return s, list
}

// identity is what ceilings of the only variant are computed for.
func identity(t *testing.T, s *scenario.Scenario) string {
	t.Helper()
	v, ok := s.Variant(s.Variants[0].Name)
	if !ok {
		t.Fatal("no variant")
	}
	return v.Identity()
}

// The table has a line per contender, those that the lab knows first, and each
// verdict a line that says who kept it.
func TestWriteText(t *testing.T) {
	s, results := played(t)
	var b bytes.Buffer
	if err := report.New([]*scenario.Scenario{s}, results).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	space := regexp.MustCompile(` +`)
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.TrimSpace(space.ReplaceAllString(line, " ")))
	}
	want := []string{
		"steady, 2x: all",
		"goodput of ceiling good p50 p99 refused falsely failed attempts recovers",
		"knee+queue 0.710 0.887 0.355 12 ms 100 ms 64.50 % 0.00 % 0.00 % 1.05 1.5 s",
		"aegis 0.355 0.444 0.177 12 ms 100 ms 82.25 % 0.00 % 0.00 % 1.05 1.5 s",
		"",
		"steady, 2x: late",
		"goodput of ceiling good p50 p99 refused falsely failed attempts recovers",
		"knee+queue 0.000 – 0.000 0 ms 0 ms 0.00 % 2.50 % 0.00 % 0.00 1.5 s",
		"aegis 0.000 – 0.000 0 ms 0 ms 0.00 % 2.50 % 0.00 % 0.00 1.5 s",
		"",
		"FAIL steady, 2x: ofCeiling ≥ 0.9 by knee+queue; kept by nobody",
		"FAIL steady, 2x: falseRefused (late) ≤ 0.01 by best; kept by nobody",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// The JSON is the report, without the series, which is for the page.
func TestWriteJSON(t *testing.T) {
	s, results := played(t)
	var b bytes.Buffer
	if err := report.New([]*scenario.Scenario{s}, results).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got report.Report
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	v := got.Scenarios[0].Variants[0]
	if got.Scenarios[0].Trigger != [2]float64{2, 4} || v.Load != 2 || v.Ceilings["all"].Limit != 9 || len(v.Rows) != 2 || v.Rows[0].Seeds != 2 {
		t.Errorf("the report reads back as %+v", got.Scenarios[0])
	}
	stat := v.Rows[0].Windows[0]["goodput"]
	if stat != (report.Stat{Mean: 0.71, Min: 0.7, Max: 0.72}) {
		t.Errorf("goodput over the seeds is %+v; want 0.71 between 0.7 and 0.72", stat)
	}
	if strings.Contains(b.String(), "QueueAge") {
		t.Error("the JSON has the series")
	}
}

// The document says what happens to a user first, where that was played, and then
// every criterion.
func TestWriteMarkdown(t *testing.T) {
	s, results := played(t)
	r := report.New([]*scenario.Scenario{s}, results)
	var b bytes.Buffer
	if err := r.WriteMarkdown(&b, "what it means"); err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, want := range []string{
		"# What the limits did", "|  | knee+queue | aegis |", "| twice the load | 0.89 | 0.44 |", "what it means", "## Criteria", "### steady", "it is tried",
		"| variant | criterion | must be kept by | is | knee+queue | aegis | because |",
		"| 2x | ofCeiling ≥ 0.9 | knee+queue | **no** | 0.887 | 0.444 | it is possible |",
		"| 2x | falseRefused (late) ≤ 0.01 | best | **no** | 0.025 | 0.025 | it is fair |",
	} {
		at := strings.Index(b.String(), want)
		if at < 0 || at < last {
			t.Errorf("the document lacks %q, or has it before what goes before it:\n%s", want, b.String())
		}
		last = max(last, at)
	}
	b.Reset()
	if err := r.WriteHeadlines(&b, []string{"aegis", "vegas"}); err != nil {
		t.Fatal(err)
	}
	if want := "|  | aegis | vegas |\n|---|---|---|\n| twice the load | 0.44 | – |\n"; b.String() != want {
		t.Errorf("headlines of two contenders:\n%s\nwant\n%s", b.String(), want)
	}
}

// What is kept by those that must is bold, and counts as kept.
func TestKeptIsBold(t *testing.T) {
	s, results := played(t)
	for _, r := range results {
		r.Windows[0].Good, r.Windows[1].FalseRefused = 780, 0
	}
	r := report.New([]*scenario.Scenario{s}, results)
	var b bytes.Buffer
	if err := errors.Join(r.WriteHeadlines(&b, nil), r.WriteTargets(&b)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| twice the load | **0.97** | **0.97** |", "1 targets are kept, 0 are missed", // the other one does not name the default
		"| steady | 2x | ofCeiling ≥ 0.9 | 0.975 | 0.975 – 0.975 | 9: 0.800, 40.00 % refused | yes | it is possible |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	if failed := r.Failed(); len(failed) != 0 {
		t.Errorf("%d criteria failed", len(failed))
	}
}

// The page needs nothing but itself, and its data are those of the report: columns
// over time, at most so many points of them.
func TestWriteHTML(t *testing.T) {
	s, results := played(t)
	for _, r := range results {
		r.Series = make([]measure.Step, 2401)
		for i := range r.Series {
			r.Series[i] = measure.Step{Offered: 8, Good: 4, Attempts: 16, Limit: 3}
		}
	}
	var b bytes.Buffer
	if err := report.New([]*scenario.Scenario{s}, results).WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if found := regexp.MustCompile(`(?i)(src|href)\s*=\s*["']?https?:`).FindString(page); found != "" {
		t.Errorf("the page loads %s", found)
	}
	_, data, ok := strings.Cut(page, `"series":`)
	if !ok {
		t.Fatal("the page has no series")
	}
	var series struct{ T, Offered, Good, Attempts []float64 }
	if err := json.NewDecoder(strings.NewReader(data)).Decode(&series); err != nil {
		t.Fatal(err)
	}
	if n := len(series.T); n != 600 || series.T[1] != 2 {
		t.Errorf("%d points, the second at %v s; want 600, one each 2 s of the 20 minutes", n, series.T[1])
	}
	if series.Offered[7] != 16 || series.Good[7] != 8 || series.Attempts[7] != 2 {
		t.Errorf("offered %v/s, good %v/s, %v attempts; want 16, 8 and 2", series.Offered[7], series.Good[7], series.Attempts[7])
	}
}

// What a scenario says stands in the documents as it was meant: a bar or a line break in
// it ends no cell of a table, and a tag in it is none of the page.
func TestWordsOfAScenario(t *testing.T) {
	s := parsed(t, strings.Replace(smallest, "about: y", "about: </script><script>alert(1)</script>", 1)+"variants: [{ name: a|b }]\npass:\n  - measure: good\n    atLeast: 0.5\n    by: [vegas]\n    why: |\n      one | two\n      three\n")
	r := report.New([]*scenario.Scenario{s}, ofSeeds("x", "a|b", map[string]int{"vegas": 60}, nil))
	var document, targets, page bytes.Buffer
	if err := errors.Join(r.WriteMarkdown(&document, ""), r.WriteTargets(&targets), r.WriteHTML(&page)); err != nil {
		t.Fatal(err)
	}
	if want := "| a\\|b | good ≥ 0.5 | vegas | yes | **0.6** | one \\| two three  |\n"; !strings.Contains(document.String(), want) {
		t.Errorf("the document lacks %q:\n%s", want, document.String())
	}
	for line := range strings.Lines(document.String() + targets.String()) {
		if strings.Contains(line, "three") && !strings.HasSuffix(line, " |\n") {
			t.Errorf("a row is broken: %q", line)
		}
	}
	if strings.Contains(page.String(), "<script>alert") {
		t.Error("a tag of the scenario is one of the page")
	}
}

// broken is a file that cannot be written.
type broken struct{}

var errBroken = errors.New("no space left")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

// Whatever cannot be written is told.
func TestWritersTell(t *testing.T) {
	s, results := played(t)
	r := report.New([]*scenario.Scenario{s}, results)
	for name, write := range map[string]func(io.Writer) error{
		"text": r.WriteText, "json": r.WriteJSON, "html": r.WriteHTML, "targets": r.WriteTargets,
		"headlines": func(w io.Writer) error { return r.WriteHeadlines(w, nil) },
		"markdown":  func(w io.Writer) error { return r.WriteMarkdown(w, "") },
	} {
		if err := write(broken{}); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v; want %v", name, err, errBroken)
		}
	}
}

// Results of scenarios and variants that are not asked for are left out, and a
// variant that nobody played is.
func TestReportIsAboutWhatWasPlayed(t *testing.T) {
	s, results := played(t)
	results[0].Variant, results[1].Scenario = "10x", "other"
	r := report.New([]*scenario.Scenario{s, parsed(t, smallest)}, results)
	if len(r.Scenarios) != 1 || len(r.Scenarios[0].Variants) != 1 || len(r.Scenarios[0].Variants[0].Rows) != 1 {
		t.Errorf("scenarios %+v; want one with one variant and one contender", r.Scenarios)
	}
	if time.Duration(s.For) != 10*time.Second {
		t.Error("the scenario was changed")
	}
}
