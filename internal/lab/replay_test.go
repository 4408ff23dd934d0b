package lab_test

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/internal/lab/trace"
	"github.com/admitd/admitd/limiter"
)

// What a replay says of the limits that were in force is what happened: within
// 5 % of the goodput, and the model is found again.
func TestReplayAgreesWithWhatHappened(t *testing.T) {
	s, _ := shipped(t, "steady").Variant("1x")
	s.For = scenario.Duration(60 * time.Second)
	s.Load = []scenario.LoadStep{{Load: 0.4}, {At: scenario.Duration(20 * time.Second), Load: 0.8}, {At: scenario.Duration(30 * time.Second), Load: 2}}
	s.Windows = []scenario.Window{{Name: "all", To: s.For}}
	var file bytes.Buffer
	var vegas lab.Contender
	for _, c := range lab.Contenders(s) {
		if c.Name == "vegas" {
			vegas = c
		}
	}
	happened, err := lab.Play(s, vegas, 1, lab.PlayOptions{Tracer: trace.NewSyncRecorder(&file)})
	if err != nil {
		t.Fatal(err)
	}
	size := float64(file.Len())
	trace, err := trace.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if perRequest := size / float64(len(trace.Arrivals)); perRequest > 24 {
		t.Errorf("a request takes %.1f bytes; want at most 24", perRequest)
	}
	model, err := trace.Model()
	if err != nil || model.Workers < 7 || model.Workers > 9 || model.Service < 9*time.Millisecond || model.Service > 11*time.Millisecond || !model.Saturated {
		t.Errorf("Model() = %+v, %v; want about 8 workers of 10ms, saturated", model, err)
	}
	replayed, err := lab.Replay(trace, vegas, lab.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	recorded := lab.Recorded(trace, 0)
	for _, measure := range []string{"good", "answered", "refused"} {
		want, _ := happened.Value(measure, "")
		from, _ := recorded.Value(measure, "")
		got, _ := replayed.Value(measure, "")
		if math.Abs(from-want) > 0.005 {
			t.Errorf("%s: the trace says %.4f; it was %.4f", measure, from, want)
		}
		if math.Abs(got-want) > 0.05 {
			t.Errorf("%s: the replay says %.4f; it was %.4f", measure, got, want)
		}
	}
	again, err := lab.Replay(trace, vegas, lab.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(replayed, again); diff != "" {
		t.Errorf("two replays of one seed differ:\n%s", diff)
	}
}

// A replay leaves out nothing that came, charges what was charged, and ends callers who
// wait for longer than they are said to.
func TestReplayOptions(t *testing.T) {
	list := &trace.Trace{Span: 3 * time.Second}
	for i := range int64(30) {
		list.Arrivals = append(list.Arrivals, trace.Arrival{At: i * int64(100*time.Millisecond), Key: "k", Cost: 2, Served: true, Latency: 50 * time.Millisecond})
	}
	costs := 0.0
	probe := watched(func(_ *lab.World, r lab.Request) { costs += r.Cost })
	model := trace.Model{Workers: 1, Service: 50 * time.Millisecond}
	for name, tc := range map[string]struct {
		o      lab.ReplayOptions
		answer int
		good   int
	}{
		"as it was":            {lab.ReplayOptions{Model: model}, 30, 30},
		"twice as slow":        {lab.ReplayOptions{Model: trace.Model{Workers: 1, Service: 100 * time.Millisecond}}, 30, 30}, // the works are what they took
		"impatient":            {lab.ReplayOptions{Model: model, Timeout: 49 * time.Millisecond}, 0, 0},
		"a shorter objective":  {lab.ReplayOptions{Model: model, Objective: 49 * time.Millisecond}, 30, 0},
		"patient for a moment": {lab.ReplayOptions{Model: model, Timeout: 51 * time.Millisecond, Objective: time.Second}, 30, 30},
	} {
		costs = 0
		r, err := lab.Replay(list, probe, tc.o)
		if err != nil {
			t.Fatal(err)
		}
		w := r.Windows[0]
		if w.Offered != 30 || w.Attempts != 30 || w.Answered != tc.answer || w.Good != tc.good || w.Failed != 30-tc.answer || costs != 60 {
			t.Errorf("%s: %+v, charged %v; want %d answered of 30, %d of them good, each charged for 2", name, w, costs, tc.answer, tc.good)
		}
	}
	if _, err := lab.Replay(&trace.Trace{}, probe, lab.ReplayOptions{Model: model}); err == nil {
		t.Error("a trace of nothing was replayed")
	}
	if _, err := lab.Replay(list, probe, lab.ReplayOptions{}); err == nil {
		t.Error("a model was made of thirty arrivals")
	}
}

// What a trace shows by itself: who was answered, refused and failed, and how long
// they waited, in the gate and behind it.
func TestRecorded(t *testing.T) {
	list := &trace.Trace{Span: time.Second, Arrivals: []trace.Arrival{
		{At: 0, Served: true, Latency: 80 * time.Millisecond},
		{At: 1, Served: true, Latency: 80 * time.Millisecond, Waited: 30 * time.Millisecond, Outcome: limiter.Success},
		{At: 2, Served: true, Latency: 80 * time.Millisecond, Outcome: limiter.Dropped},
		{At: 3},
	}}
	list.Arrivals[0].Outcome = limiter.Success
	w := lab.Recorded(list, 100*time.Millisecond).Windows[0]
	if w.Offered != 4 || w.Answered != 2 || w.Good != 1 || w.Failed != 1 || w.Refused != 1 || w.P99 < 0.109 || w.P99 > 0.111 {
		t.Errorf("%+v; want two answered, the one that waited for 110 ms not in time, one failed and one refused", w)
	}
}
