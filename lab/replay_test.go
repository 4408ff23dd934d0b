package lab_test

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/lab"
	"github.com/admitd/admitd/lab/scenario"
	"github.com/admitd/admitd/lab/trace"
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
