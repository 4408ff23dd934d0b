package trace_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab/trace"
	"github.com/admitd/admitd/limiter"
)

// rounds are so many rounds in which most requests come one after the other and all
// leave before the next round. The k-th of a round finds k-1 inside, and takes what a
// backend of so many workers needs with k.
func rounds(n, most, workers int) *trace.Trace {
	const service = 10 * time.Millisecond
	t := &trace.Trace{}
	for round := range n {
		for k := range most {
			t.Arrivals = append(t.Arrivals, trace.Arrival{
				At: int64(round)*int64(time.Hour) + int64(k), Served: true, Outcome: limiter.Success,
				Latency: service * time.Duration(max(k+1, workers)) / time.Duration(workers),
			})
		}
	}
	return t
}

// The workers of a backend are found where more inside answer no more, and where
// they still do it is said that there may be more of them.
func TestModelOfATrace(t *testing.T) {
	for name, tc := range map[string]struct {
		most, workers int
		want          trace.Model
	}{
		"far beyond its workers": {32, 4, trace.Model{Workers: 4, Service: 10 * time.Millisecond, Saturated: true}},
		"twice its workers":      {16, 8, trace.Model{Workers: 8, Service: 10 * time.Millisecond, Saturated: true}},
		"below its workers":      {16, 64, trace.Model{Workers: 16, Service: 10 * time.Millisecond}},
		"one at a time":          {1, 8, trace.Model{Workers: 1, Service: 10 * time.Millisecond}},
	} {
		got, err := rounds(1600/tc.most, tc.most, tc.workers).Model()
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// A hundred answers show something, and 99 do not; what was refused, dropped or not
// answered shows nothing, but is inside for as long as it was.
func TestModelNeedsAnswers(t *testing.T) {
	few := rounds(100, 1, 1)
	if _, err := few.Model(); err != nil {
		t.Errorf("with 100 answers: %v", err)
	}
	few.Arrivals[7].Outcome = limiter.Dropped
	if m, err := few.Model(); err == nil {
		t.Errorf("with 99 answers and a drop: %+v", m)
	}
	few.Arrivals[7] = trace.Arrival{At: few.Arrivals[7].At}
	if m, err := few.Model(); err == nil {
		t.Errorf("with 99 answers and one refused: %+v", m)
	}

	// Beside each answer of 10 ms something fails that was inside before it.
	var beside trace.Trace
	for i := range 100 {
		at := int64(i) * int64(time.Second)
		beside.Arrivals = append(beside.Arrivals,
			trace.Arrival{At: at, Served: true, Latency: 20 * time.Millisecond, Outcome: limiter.Dropped},
			trace.Arrival{At: at + 1, Served: true, Latency: 10 * time.Millisecond, Outcome: limiter.Success})
	}
	if m, err := beside.Model(); err != nil || m.Workers != 2 || m.Service != 10*time.Millisecond {
		t.Errorf("beside failures: %+v, %v; want 2 workers of 10 ms", m, err)
	}
}

// A request asks of the model what it took, less the wait for a worker; of one that
// was not answered it is as much as of one that was.
func TestWorksOfEach(t *testing.T) {
	full := rounds(100, 4, 2)
	full.Arrivals[5] = trace.Arrival{At: full.Arrivals[5].At} // the second of its round, refused
	works := full.Works(trace.Model{Workers: 2, Service: 5 * time.Millisecond}, rand.New(rand.NewPCG(1, 1)))
	if len(works) != len(full.Arrivals) {
		t.Fatalf("%d works of %d arrivals", len(works), len(full.Arrivals))
	}
	for i, got := range works {
		if want := 2.0; i > 7 && math.Abs(got-want) > 1e-9 {
			t.Fatalf("arrival %d asks for %v; want %v, of 10 ms in which it had a worker", i, got, want)
		}
	}
	if got := works[5]; math.Abs(got-2) > 1 {
		t.Errorf("what was refused asks for %v; want what others do", got)
	}
}

// Ends come in the order in which they ended, and permits that waited are those of the
// latest who are left: who came before the others was refused, or gave up.
func TestWaitsOfMany(t *testing.T) {
	var file bytes.Buffer
	w := trace.NewSyncRecorder(&file)
	for _, at := range []int64{100, 120, 110, 130, 200} { // two connections may write in another order
		w.Offered(at, "", 1)
	}
	w.Ended(150, 300, 1, limiter.Success) // waited: of the one at 130
	w.Ended(210, 310, 2, limiter.Success) // waited: of the one at 120
	w.Ended(200, 320, 3, limiter.Success)
	w.Ended(110, 330, 4, limiter.Ignored)
	w.Ended(99, 340, 5, limiter.Success) // of nobody: it began before everybody came
	got, err := trace.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	want := []trace.Arrival{
		{At: 0},
		{At: 10, Served: true, Latency: 4, Outcome: limiter.Ignored},
		{At: 20, Served: true, Waited: 90, Latency: 2, Outcome: limiter.Success},
		{At: 30, Served: true, Waited: 20, Latency: 1, Outcome: limiter.Success},
		{At: 100, Served: true, Latency: 3, Outcome: limiter.Success},
	}
	for i := range got.Arrivals {
		got.Arrivals[i].Cost = 0
	}
	if diff := cmp.Diff(want, got.Arrivals); diff != "" {
		t.Errorf("arrivals (-want +got):\n%s", diff)
	}
}
