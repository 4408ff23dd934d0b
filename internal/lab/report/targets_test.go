package report_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/report"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// ofSeeds returns what contenders did with one seed: good answers of 100 requests in
// the only window, of which some were refused for nothing.
func ofSeeds(name, variant string, good, falsely map[string]int) (list []*measure.Result) {
	for _, contender := range []string{"knee+queue", "vegas"} {
		if _, ran := good[contender]; !ran {
			continue
		}
		list = append(list, &measure.Result{
			Scenario: name, Variant: variant, Contender: contender, Seed: 1, Recover: 2.25,
			Windows: []measure.Window{{Name: "all", Seconds: 1, Capacity: 200, Offered: 100, Good: good[contender], FalseRefused: falsely[contender]}},
		})
	}
	return list
}

// Targets are told of the default alone, whoever else must keep them: in the unit of
// what is judged, apart where the ceiling is not known, and not at all where the
// default did not run or is not asked for.
func TestWriteTargets(t *testing.T) {
	s := parsed(t, smallest+`
variants: [{ name: a }, { name: b }]
pass:
  - { measure: falseRefused, atMost: 0.01, variants: [a], why: fair }
  - { measure: recover, atMost: 1, variants: [a], why: soon }
  - { measure: good, atLeast: 0.5, by: [knee+queue, vegas], variants: [a], why: both }
  - { measure: good, atMost: 0.5, by: [vegas, knee+queue], variants: [a], why: neither }
  - { measure: good, atLeast: 0.1, by: [vegas], variants: [a], why: another }
  - { measure: ofCeiling, atLeast: 0.9, why: possible }
`)
	results := append(ofSeeds("x", "a", map[string]int{"knee+queue": 60, "vegas": 40}, map[string]int{"knee+queue": 3}),
		ofSeeds("x", "b", map[string]int{"vegas": 40}, nil)...)
	var b bytes.Buffer
	if err := report.New([]*scenario.Scenario{s}, results).WriteTargets(&b); err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(b.String(), "1 targets are kept, 0 are missed by no more than is known, 0 are kept though they were known to be missed, 3 are missed, and of 1 the ceiling is not known.\n")
	if !ok {
		t.Fatalf("the counts are others:\n%s", b.String())
	}
	var got []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| x |") || strings.HasPrefix(line, "##") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := []string{
		"## Missed, or better than known",
		"| x | a | falseRefused ≤ 0.01 | 3.00 % | 3.00 % – 3.00 % | – | **no** | fair |",
		"| x | a | recover ≤ 1 | 2.2 s | 2.2 s – 2.2 s | – | **no** | soon |",
		"| x | a | good ≤ 0.5 | 0.600 | 0.600 – 0.600 | – | **no** | neither |",
		"## The ceiling is not known",
		"| x | a | ofCeiling ≥ 0.9 | 0.300 |",
		"## Kept",
		"| x | a | good ≥ 0.5 | 0.600 | 0.600 – 0.600 | – | yes | both |",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

// Who answers nothing in time does nothing of what is possible, and is judged by it;
// where that is not known, nobody is.
func TestUnknownCeiling(t *testing.T) {
	s := parsed(t, smallest+"pass: [{ measure: ofCeiling, atLeast: 0.9, by: [vegas] }]\n")
	known, err := scenario.ReadCeilings([]byte(`{"x":{"default":{"of":"` + identity(t, s) + `","windows":{"all":{"limit":9,"good":80,"refused":0.4}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	results := ofSeeds("x", "default", map[string]int{"vegas": 0}, nil)
	judged := func() bool { return report.New([]*scenario.Scenario{s}, results).Verdicts[0].Judged }
	if judged() {
		t.Error("judged by a ceiling that nobody knows")
	}
	if known.Know(s); !judged() {
		t.Error("nothing of a ceiling that is known is taken for a ceiling that is not")
	}
}

// What is refused for nothing is told in per cent, what is possible as a share. Where
// the ceiling is not known the share was told as -1.
func TestHeadlineUnits(t *testing.T) {
	mix := parsed(t, strings.Replace(smallest, "name: x", "name: mix", 1)+"pass: [{ measure: falseRefused, atMost: 0.01 }]\n")
	steady := parsed(t, strings.Replace(smallest, "name: x", "name: steady", 1)+"variants: [{ name: 2x }]\npass: [{ measure: ofCeiling, atLeast: 0.9 }]\n")
	results := append(ofSeeds("mix", "default", map[string]int{"knee+queue": 60}, map[string]int{"knee+queue": 3}),
		ofSeeds("steady", "2x", map[string]int{"knee+queue": 60}, nil)...)
	var b bytes.Buffer
	if err := report.New([]*scenario.Scenario{mix, steady}, results).WriteHeadlines(&b, []string{"knee+queue"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| more of the requests are slow ones | 3.0 % |", "| twice the load | – |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
}

// columns are the series of the first contender of a page.
type columns struct {
	T, Age, Offered, Good, Refused, Failed, Attempts []float64
	Limit                                            []*int
	Inside                                           []int
}

// drawn returns the columns of a page that shows steps; nil = it has none.
func drawn(t *testing.T, steps []measure.Step) *columns {
	t.Helper()
	s := parsed(t, smallest)
	results := ofSeeds("x", "default", map[string]int{"vegas": 1}, nil)
	results[0].Series = steps
	var b bytes.Buffer
	if err := report.New([]*scenario.Scenario{s}, results).WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	_, data, ok := strings.Cut(b.String(), `"series":`)
	if !ok {
		return nil
	}
	c := &columns{}
	if err := json.NewDecoder(strings.NewReader(data)).Decode(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// A point of the page is one step, or where there are too many some of them: rates
// are their mean, the age is the worst, limit and inside are the last; no limit is
// none. The last step, which gathers what ended after the arrivals, is left out.
func TestPageColumns(t *testing.T) {
	at := func(n int) *int { return &n }
	few := []measure.Step{
		{Offered: 10, Good: 4, Refused: 3, Failed: 2, Attempts: 15, Limit: 7, Inside: 5, QueueAge: 0.0123},
		{Offered: 4, Good: 4},
		{Offered: 99},
	}
	want := &columns{
		T: []float64{0, 0.5}, Age: []float64{12.3, 0}, Offered: []float64{20, 8}, Good: []float64{8, 8}, Refused: []float64{6, 0}, Failed: []float64{4, 0},
		Attempts: []float64{1.5, 0}, Limit: []*int{at(7), nil}, Inside: []int{5, 0},
	}
	if diff := cmp.Diff(want, drawn(t, few)); diff != "" {
		t.Errorf("a step to a point (-want +got):\n%s", diff)
	}
	many := make([]measure.Step, 1202)
	for i := range many {
		many[i] = measure.Step{Offered: 2 + i%2, Good: i % 2, Refused: 1, Failed: 1, Attempts: 5, Limit: i, Inside: 2 * i, QueueAge: float64(9 - i%3)}
	}
	got := drawn(t, many) // 1201 steps are three to a point
	if n := len(got.T); n != 401 || got.T[400] != 600 {
		t.Fatalf("%d points, the last at %v s; want 401, at 600 s", n, got.T[n-1])
	}
	first := columns{
		T: got.T[:1], Age: got.Age[:1], Offered: got.Offered[:1], Good: got.Good[:1], Refused: got.Refused[:1], Failed: got.Failed[:1],
		Attempts: got.Attempts[:1], Limit: got.Limit[:1], Inside: got.Inside[:1],
	}
	want = &columns{
		T: []float64{0}, Age: []float64{9000}, Offered: []float64{4.7}, Good: []float64{0.7}, Refused: []float64{2}, Failed: []float64{2},
		Attempts: []float64{2.143}, Limit: []*int{at(2)}, Inside: []int{4},
	}
	if diff := cmp.Diff(want, &first); diff != "" {
		t.Errorf("three steps to a point (-want +got):\n%s", diff)
	}
	for _, none := range [][]measure.Step{nil, {{Offered: 1}}} {
		if c := drawn(t, none); c != nil {
			t.Errorf("%d steps are drawn as %+v; want nothing", len(none), c)
		}
	}
}
