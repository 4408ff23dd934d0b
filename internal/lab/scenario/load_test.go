package scenario_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab/scenario"
)

// parsed reads the smallest scenario with more lines.
func parsed(t *testing.T, more string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse([]byte(smallest + more))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What is left out is the model of the documents.
func TestDefaults(t *testing.T) {
	s := parsed(t, "")
	got := fmt.Sprintf("%d workers of %v, %v slower each beyond; clients give up after %v, the gate after %v; good within %v; %d gate, %d seeds, variant %s",
		s.Backend.Workers, time.Duration(s.Backend.Service.Mean), s.Backend.Thrash, time.Duration(s.Timeout), time.Duration(s.BackendTimeout),
		time.Duration(s.Objective), s.Gates, s.Seeds, s.Variants[0].Name)
	want := "8 workers of 10ms, 0.002 slower each beyond; clients give up after 1s, the gate after 30s; good within 100ms; 1 gate, 5 seeds, variant default"
	if got != want {
		t.Errorf("the model is\n%s; want\n%s", got, want)
	}
	if s := parsed(t, "backend: { workers: 3 }\n"); s.Backend.Thrash != 0 {
		t.Errorf("a backend of its own thrashes by %v; want what is written", s.Backend.Thrash)
	}
}

// A ramp is made of even steps from the load before to its own, and every load is
// scaled.
func TestLoadSteps(t *testing.T) {
	s := parsed(t, "scale: 2\nvariants: [{ name: v, load: [{ at: 0s, load: 0.5 }, { at: 2s, load: 1, over: 5s }, { at: 8s, load: 0 }] }]\n")
	v, _ := s.Variant("v")
	steps := v.LoadSteps()
	if len(steps) != 52 {
		t.Fatalf("%d steps; want 1, 50 of the ramp, and 1", len(steps))
	}
	at := func(i int) string { return fmt.Sprintf("%v: %.3f", time.Duration(steps[i].At), steps[i].Load) }
	for i, want := range map[int]string{0: "0s: 1.000", 1: "2s: 1.020", 25: "4.4s: 1.500", 50: "6.9s: 2.000", 51: "8s: 0.000"} {
		if got := at(i); got != want {
			t.Errorf("step %d is %s; want %s", i, got, want)
		}
	}
}

// Health comes with its ramps, and pauses with what ends them.
func TestHealthSteps(t *testing.T) {
	s := parsed(t, "health: [{ at: 1s, slow: 3, over: 2s }, { at: 5s, delay: 40ms }, { at: 6s, frozen: true, workers: 2, share: 0.5 }]\npauses: { every: 4s, for: 100ms }\n")
	steps := s.HealthSteps()
	if len(steps) != 50+2+4 {
		t.Fatalf("%d steps; want 50 of the ramp, 2 more, and 2 of each pause before the end", len(steps))
	}
	for i, want := range map[int]scenario.Health{
		24: {Speed: 2, Workers: 8},
		49: {Speed: 3, Workers: 8},
		50: {Speed: 1, Delay: 40 * time.Millisecond, Workers: 8},
		51: {Speed: 1, Frozen: true, Workers: 2, Share: 0.5},
		52: {Speed: 1, Frozen: true, Workers: 8},
		53: {Speed: 1, Workers: 8},
	} {
		if diff := cmp.Diff(want, steps[i].State(&s.Backend)); diff != "" {
			t.Errorf("health of step %d at %v (-want +got):\n%s", i, time.Duration(steps[i].At), diff)
		}
	}
	if at := time.Duration(steps[53].At); at != 4100*time.Millisecond {
		t.Errorf("the first pause ends at %v; want 4.1s", at)
	}
}

// A backend may also be faster than at first; what is zero or less is not said, and
// leaves it as it is.
func TestFasterThanHealthy(t *testing.T) {
	s := parsed(t, "health: [{ at: 1s, slow: 0.5 }, { at: 2s, slow: 0 }, { at: 3s, slow: -1 }]\n")
	for i, want := range []float64{0.5, 1, 1} {
		if got := s.HealthSteps()[i].State(&s.Backend).Speed; got != want {
			t.Errorf("services take %v times as long in step %d; want %v", got, i, want)
		}
	}
}

// Each ramp begins at the health before it, is as long as it is said to be, and
// moves what it moves evenly; a pause that would begin with the end does not come.
func TestRampsOfHealth(t *testing.T) {
	s := parsed(t, `
health: [{ at: 1s, slow: 3, delay: 100ms }, { at: 2s, slow: 1, delay: 50ms, over: 5s }, { at: 8s, slow: 2 }]
pauses: { every: 5s, for: 1s }
`)
	steps := s.HealthSteps()
	if len(steps) != 1+50+1+2 {
		t.Fatalf("%d steps; want 1, 50 of the ramp, 1, and 2 of the one pause", len(steps))
	}
	for i, want := range map[int]string{
		0: "1s: 3.00 slower, +100ms", 1: "2s: 2.96 slower, +99ms", 25: "4.4s: 2.00 slower, +75ms", 50: "6.9s: 1.00 slower, +50ms",
		51: "8s: 2.00 slower, +0s", 52: "5s: 1.00 slower, +0s", 53: "6s: 1.00 slower, +0s",
	} {
		h := steps[i].State(&s.Backend)
		if got := fmt.Sprintf("%v: %.2f slower, +%v", time.Duration(steps[i].At), h.Speed, h.Delay); got != want {
			t.Errorf("step %d is %s; want %s", i, got, want)
		}
		if h.Frozen != (i == 52) {
			t.Errorf("step %d is frozen: %v", i, h.Frozen)
		}
	}
}

// The capacity is what the workers can do in a state, and with contention what they
// can do at their best.
func TestCapacity(t *testing.T) {
	for name, tc := range map[string]struct {
		backend string
		health  scenario.Health
		want    float64
	}{
		"healthy":              {"workers: 8", scenario.Health{Speed: 1, Workers: 8}, 800},
		"half as fast":         {"workers: 8", scenario.Health{Speed: 2, Workers: 8}, 400},
		"fewer workers":        {"workers: 8", scenario.Health{Speed: 1, Workers: 2}, 200},
		"frozen":               {"workers: 8", scenario.Health{Speed: 1, Workers: 8, Frozen: true}, 0},
		"delay costs nothing":  {"workers: 8", scenario.Health{Speed: 1, Workers: 8, Delay: time.Second}, 800},
		"two classes":          {"workers: 8, service: { kind: classes, mean: 10ms, other: 30ms, share: 0.5 }", scenario.Health{Speed: 1, Workers: 8, Share: 0.5}, 400},
		"sharing":              {"workers: 2, discipline: sharing", scenario.Health{Speed: 1, Workers: 2}, 200},
		"contention, all busy": {"workers: 2, contention: { serial: 0.1 }", scenario.Health{Speed: 1, Workers: 2}, 181.8},
		"worst of two":         {"workers: 2, contention: { crosstalk: 5 }", scenario.Health{Speed: 1, Workers: 2}, 100},
		"contention":           {"workers: 64, contention: { serial: 0.1, crosstalk: 0.01 }", scenario.Health{Speed: 1, Workers: 64}, 357.1},
	} {
		s := parsed(t, "backend: { "+tc.backend+" }\n")
		if got := s.Backend.CapacityIn(tc.health); math.Abs(got-tc.want) > 0.1 {
			t.Errorf("%s: capacity %.1f/s; want %v", name, got, tc.want)
		}
	}
}

// Each kind of service has the mean, and the spread, that its name promises.
func TestServiceTimes(t *testing.T) {
	const n = 200_000
	for spec, want := range map[scenario.ServiceSpec][2]float64{ // mean, coefficient of variation
		{Kind: "constant", Mean: scenario.Duration(10 * time.Millisecond)}:                                                                {10, 0},
		{Kind: "exponential", Mean: scenario.Duration(10 * time.Millisecond)}:                                                             {10, 1},
		{Mean: scenario.Duration(10 * time.Millisecond)}:                                                                                  {10, 1},
		{Kind: "lognormal", Mean: scenario.Duration(10 * time.Millisecond), Sigma: 0.5}:                                                   {10, math.Sqrt(math.Exp(0.25) - 1)},
		{Kind: "pareto", Mean: scenario.Duration(10 * time.Millisecond), Shape: 4}:                                                        {10, math.Sqrt(1. / 8)},
		{Kind: "bimodal", Mean: scenario.Duration(10 * time.Millisecond), Other: scenario.Duration(50 * time.Millisecond), Share: 0.1}:    {14, math.Sqrt(0.9*200+0.1*2500-196) / 14},
		{Kind: "classes", Mean: scenario.Duration(10 * time.Millisecond), Other: scenario.Duration(100 * time.Millisecond), Share: 0.125}: {21.25, math.Sqrt(2*(0.875*100+0.125*10000)-21.25*21.25) / 21.25},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		sum, squares := 0.0, 0.0
		for range n {
			x := spec.Draw(r, spec.Share) / 1e6
			sum, squares = sum+x, squares+x*x
		}
		mean := sum / n
		cv := math.Sqrt(math.Max(squares/n-mean*mean, 0)) / mean
		if math.Abs(mean-want[0]) > 0.02*want[0] || math.Abs(cv-want[1]) > 0.05 {
			t.Errorf("%+v: mean %.2f ms, variation %.2f; want %.2f and %.2f", spec, mean, cv, want[0], want[1])
		}
		if got := spec.MeanAt(spec.Share).Seconds() * 1e3; math.Abs(got-want[0]) > 0.01 {
			t.Errorf("%+v says that its mean is %v ms; want %v", spec, got, want[0])
		}
	}
}

// Bursts put a factor on the load that leaves the mean what the steps say.
func TestBurstsKeepTheMean(t *testing.T) {
	for _, a := range []scenario.ArrivalSpec{
		{High: 1.5, On: scenario.Duration(time.Second), Off: scenario.Duration(3 * time.Second)},
		{High: 4, On: scenario.Duration(time.Second), Off: scenario.Duration(3 * time.Second)},
	} {
		mean := (a.High*float64(a.On) + a.Low()*float64(a.Off)) / float64(a.On+a.Off)
		if math.Abs(mean-1) > 1e-12 || a.Low() < 0 {
			t.Errorf("%+v: the calm times have %v and the mean is %v; want 1", a, a.Low(), mean)
		}
	}
}

// Patience is spread evenly over the orders of magnitude, within its bounds; without
// a spread all have the same.
func TestPatience(t *testing.T) {
	p := scenario.PatienceSpec{Least: scenario.Duration(10 * time.Millisecond), Most: scenario.Duration(10 * time.Second)}
	draw := p.Drawn(rand.New(rand.NewPCG(1, 1)), time.Second)
	counts := [3]int{}
	for range 30_000 {
		d := draw()
		if d < 10*time.Millisecond || d > 10*time.Second {
			t.Fatalf("a client waits %v; want 10 ms to 10 s", d)
		}
		counts[min(int(math.Log10(d.Seconds())+2), 2)]++
	}
	for i, n := range counts {
		if n < 9500 || n > 10_500 {
			t.Errorf("%d of 30000 are in order of magnitude %d; want a third", n, i)
		}
	}
	all := (&scenario.PatienceSpec{}).Drawn(nil, 3*time.Second)
	if got := all(); got != 3*time.Second {
		t.Errorf("without a spread a client waits %v; want the timeout", got)
	}
}

// A run lasts until the most patient client and the gate have given up.
func TestLongestWait(t *testing.T) {
	for more, want := range map[string]time.Duration{
		"":                                  31 * time.Second,
		"timeout: 5s\nbackendTimeout: 2s\n": 7 * time.Second,
		"clients: { policy: naive, retries: -1, deadline: 20s }\n":  50 * time.Second,
		"clients: { patience: { least: 1s, most: 40s } }\n":         70 * time.Second,
		"abandon: cancel\nbackend: { workers: 1, cancelled: stops}": 31 * time.Second,
	} {
		if got := parsed(t, more).LongestWait(); got != want {
			t.Errorf("%q: a request is on its way for %v at most; want %v", more, got, want)
		}
	}
	for more, want := range map[string]bool{
		"": false, "backend: { workers: 1, cancelled: stops }\n": true, "abandon: cancel\n": true,
		"abandon: finish\nbackend: { workers: 1, cancelled: stops }\n": false,
	} {
		if got := parsed(t, more).Cancels(); got != want {
			t.Errorf("%q: Cancels() = %v; want %v", more, got, want)
		}
	}
}
