package measure_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab/measure"
)

// one is a result of two windows.
func one() *measure.Result {
	return &measure.Result{
		Scenario: "s", Variant: "v", Contender: "c", Seed: 7, Recover: 2.5, Leaked: 1, Partitions: 3,
		Windows: []measure.Window{
			{
				Name: "all", Seconds: 10, Capacity: 100, Ceiling: 80, Offered: 1000, Good: 400, Answered: 500, Refused: 300, FalseRefused: 20,
				Failed: 200, Wasted: 500, Attempts: 1500, P50: 0.01, P99: 0.2, Neighbours: 50, NeighboursAnswered: 40, NeighboursP99: 0.3, Limit: 12, LeastGate: 0.7,
			},
			{Name: "late", Seconds: 5, Capacity: 100, Offered: 0},
		},
	}
}

// Each measure is what its line in the list of measures says, and a window without
// requests makes none of them undefined.
func TestMeasures(t *testing.T) {
	want := map[string]float64{
		"goodput": 0.4, "ofCeiling": 0.5, "good": 0.4, "answered": 0.5, "refused": 0.3, "falseRefused": 0.02, "wasted": 0.5, "failed": 0.2,
		"attempts": 1.5, "p50": 0.01, "p99": 0.2, "neighbours": 0.8, "neighboursP99": 0.3, "noisy": 92.0 / 190, "recover": 2.5, "leaked": 1, "partitions": 3, "limit": 12,
		"leastGate": 0.7,
	}
	got := map[string]float64{}
	r := one()
	for _, name := range measure.Names() {
		v, ok := r.Value(name, "")
		if !ok {
			t.Errorf("%s is listed and not known", name)
		}
		got[name] = v
		if v, _ := r.Value(name, "late"); math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%s of a window without requests is %v", name, v)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("measures (-want +got):\n%s", diff)
	}
	r.Windows[0].Ceiling, r.Windows[0].Offered, r.Windows[0].Good = 0.5, 1, 1
	if c, _ := r.Value("ofCeiling", ""); c != 0.2 {
		t.Errorf("ofCeiling = %v with one good answer in 10 s of half a one a second; want 0.2", c)
	}
	if g, _ := r.Value("good", ""); g != 1 {
		t.Errorf("good = %v of one request; want 1", g)
	}
	if v, _ := r.Value("ofCeiling", "late"); v != -1 {
		t.Errorf("ofCeiling = %v where the ceiling is not known; want -1", v)
	}
	for _, tc := range [][2]string{{"speed", ""}, {"good", "early"}} {
		if v, ok := r.Value(tc[0], tc[1]); ok {
			t.Errorf("Value(%q, %q) = %v; there is none", tc[0], tc[1], v)
		}
	}
}

// A request counts once in everything that it is.
func TestCount(t *testing.T) {
	var w measure.Window
	var s measure.Step
	for _, e := range []measure.Ending{
		{Verdict: measure.Answered, Tries: 1, Good: true},
		{Verdict: measure.Answered, Tries: 3},
		{Verdict: measure.Answered, Tries: 1},
		{Verdict: measure.Refused, Tries: 2, Spare: true},
		{Verdict: measure.Refused, Tries: 1},
		{Verdict: measure.Refused, Tries: 1},
		{Verdict: measure.Failed, Tries: 1, Spare: true},
	} {
		w.Count(e)
		s.Count(e.Verdict, e.Good)
	}
	if want := (measure.Window{Offered: 7, Good: 1, Answered: 3, Refused: 3, FalseRefused: 1, Failed: 1, Attempts: 10}); w != want {
		t.Errorf("window %+v; want %+v", w, want)
	}
	if want := (measure.Step{Offered: 7, Good: 1, Answered: 3, Refused: 3, Failed: 1}); s != want {
		t.Errorf("step %+v; want %+v", s, want)
	}
}

// Results come back as they were written, one per line, in the order of their
// names whatever order they were in.
func TestWriteAndRead(t *testing.T) {
	var list []*measure.Result
	for _, name := range [][3]string{{"b", "v", "c"}, {"a", "w", "c"}, {"a", "v", "d"}, {"a", "v", "c"}} {
		r := one()
		r.Scenario, r.Variant, r.Contender = name[0], name[1], name[2]
		list = append(list, r)
	}
	second := one()
	second.Scenario, second.Seed = "a", 1
	list = append(list, second)
	before := list[0]
	var b bytes.Buffer
	if err := measure.Write(&b, list); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n != len(list)+2 {
		t.Errorf("%d lines for %d results; want one each, and the brackets", n, len(list))
	}
	got, err := measure.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*measure.Result{second, list[3], list[2], list[1], list[0]}, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if list[0] != before {
		t.Error("writing sorted the caller's list")
	}
	b.Reset()
	if err := measure.Write(&b, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := measure.Read(&b); err != nil && len(got) != 0 {
		t.Errorf("no results are read as %v, %v", got, err)
	}
}

// What is no list of results is refused before it is reported on.
func TestReadRefuses(t *testing.T) {
	for _, text := range []string{"", "{}", "[null]", `[{"scenario":"s"}]`, "[1]", `[{"windows":[]}]`} {
		if got, err := measure.Read(strings.NewReader(text)); err == nil {
			t.Errorf("Read(%q) = %v; want an error", text, got)
		}
	}
}

// Results of one variant have the same windows. Those of two versions of a scenario,
// joined in one file, once brought the report down.
func TestReadRefusesTwoVersions(t *testing.T) {
	results := func(variant string, second ...string) string {
		list := []*measure.Result{one(), one()}
		list[1].Variant, list[1].Windows = variant, nil
		for _, name := range second {
			list[1].Windows = append(list[1].Windows, measure.Window{Name: name})
		}
		var b bytes.Buffer
		if err := measure.Write(&b, list); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, names := range [][]string{{"all"}, {"late", "all"}, {"all", "late", "later"}, {"all", "early"}} {
		if _, err := measure.Read(strings.NewReader(results("v", names...))); err == nil || !strings.Contains(err.Error(), "those of s, v have windows [all late] and") {
			t.Errorf("windows %v beside [all late]: %v; want them refused", names, err)
		}
		if _, err := measure.Read(strings.NewReader(results("w", names...))); err != nil {
			t.Errorf("windows %v of another variant: %v", names, err)
		}
	}
	if _, err := measure.Read(strings.NewReader(results("v", "all", "late"))); err != nil {
		t.Errorf("two of the same windows: %v", err)
	}
}

// failing is a file whose disk is full after some writes.
type failing struct{ left int }

var errFull = errors.New("no space left")

func (f *failing) Write(b []byte) (int, error) {
	if f.left == 0 {
		return 0, errFull
	}
	f.left--
	return len(b), nil
}

// A disk that is full is told of, whenever that is.
func TestWriteTells(t *testing.T) {
	for left := range 3 {
		if err := measure.Write(&failing{left}, []*measure.Result{one(), one()}); !errors.Is(err, errFull) {
			t.Errorf("a disk that is full after %d writes: %v", left, err)
		}
	}
}
