package lab_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// fixedAt returns a fixed limit as a contender.
func fixedAt(s *scenario.Scenario, limit int) lab.Contender {
	return lab.Fixed(s, fmt.Sprintf("fixed %d", limit), limit)
}

// quiet is a run without a limit, long enough to compare with theory.
const quiet = `
name: quiet
about: Nothing goes wrong.
for: 220s
timeout: 100s
backend: { BACKEND }
load: [{ at: 0s, load: LOAD }]
windows: [{ name: all, from: 20s, to: 220s }]
`

// played plays the only variant of a scenario for one contender and seed 1.
func played(t *testing.T, text string, contender func(*scenario.Scenario) lab.Contender) *measure.Result {
	t.Helper()
	s := onlyVariant(t, text)
	r, err := lab.Play(s, contender(s), 1, lab.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// quietRun fills in the backend and the load.
func quietRun(backend, load string) string {
	return strings.NewReplacer("BACKEND", backend, "LOAD", load).Replace(quiet)
}

// near fails unless got is within a share of want.
func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s is %.4g; theory says %.4g", what, got, want)
	}
}

// The backend is what queueing theory says it is. M/M/1 at a load of a half has
// exponential latencies of mean 2/µ; a lognormal service has its median at
// mean*exp(-σ²/2); two classes have the mean of their shares.
func TestModelIsTheTextbooks(t *testing.T) {
	none := func(*scenario.Scenario) lab.Contender { return lab.None() }
	text := func(backend string, load float64) string {
		return quietRun(backend, fmt.Sprint(load))
	}
	w := played(t, text("workers: 1", 0.5), none).Windows[0]
	near(t, "p50 of M/M/1", w.P50, 0.020*math.Ln2, 0.05)
	near(t, "p99 of M/M/1", w.P99, 0.020*math.Log(100), 0.07)
	near(t, "arrivals", float64(w.Offered), 50*200, 0.03)

	w = played(t, text("workers: 64, service: { kind: lognormal, mean: 10ms, sigma: 1 }", 0.05), none).Windows[0]
	near(t, "p50 of a lognormal service", w.P50, 0.010*math.Exp(-0.5), 0.03)

	w = played(t, text("workers: 64, service: { kind: constant, mean: 2ms }", 0.05), none).Windows[0]
	near(t, "p99 of a constant service", w.P99, 0.002, 0.01)

	// One in ten takes ten times as long: the capacity is that of the mean, 19 ms.
	w = played(t, text("workers: 8, service: { kind: classes, mean: 10ms, other: 100ms, share: 0.1 }", 0.1), none).Windows[0]
	near(t, "capacity of two classes", w.Capacity, 8/0.019, 1e-9)
	near(t, "arrivals for two classes", float64(w.Offered), 0.1*w.Capacity*200, 0.03)
}

// Limits have ceilings that follow from the model: M/M/8 with 13 inside and
// 0.2 % of thrash serves 0.989 of the capacity at twice the load, and contention
// of 0.03 and 0.002 makes 861 per second of workers that alone serve 100 each, with
// 22 at work. A wrong service time, queue, thrash or contention shows here.
func TestModelHasItsCeilings(t *testing.T) {
	r := played(t, quietRun("workers: 8, thrash: 0.002", "2"),
		func(s *scenario.Scenario) lab.Contender { return fixedAt(s, 13) })
	good, _ := r.Value("goodput", "")
	near(t, "goodput of M/M/8/13 at twice the capacity", good, 0.989, 0.004)

	usl := "workers: 200, contention: { serial: 0.03, crosstalk: 0.002 }"
	r = played(t, quietRun(usl, "2"), func(s *scenario.Scenario) lab.Contender { return fixedAt(s, 22) })
	w := r.Windows[0]
	near(t, "capacity under contention", w.Capacity, 861, 0.002)
	near(t, "answers under contention", float64(w.Answered)/w.Seconds, 861, 0.02)
	r = played(t, quietRun(usl, "2"), func(s *scenario.Scenario) lab.Contender { return fixedAt(s, 88) })
	if w := r.Windows[0]; float64(w.Answered)/w.Seconds > 600 {
		t.Errorf("88 at work serve %.0f/s; contention must make it less than 600", float64(w.Answered)/w.Seconds)
	}
}

// Bursts and batches change when requests arrive, not how many.
func TestArrivalsKeepTheirMean(t *testing.T) {
	none := func(*scenario.Scenario) lab.Contender { return lab.None() }
	base := quietRun("workers: 8", "0.5")
	poisson := played(t, base, none).Windows[0]
	for name, more := range map[string]string{
		"bursts":  "arrivals: { high: 3, on: 100ms, off: 300ms }\n",
		"batches": "arrivals: { batch: 40 }\n",
	} {
		w := played(t, base+more, none).Windows[0]
		near(t, "offered in "+name, float64(w.Offered), 0.5*800*200, 0.07)
		if w.P99 < 1.5*poisson.P99 {
			t.Errorf("p99 with %s is %v s, of a Poisson stream %v s; want much more", name, w.P99, poisson.P99)
		}
	}
}

// What changes the backend changes what it serves: workers, ramps and pauses.
func TestHealthChanges(t *testing.T) {
	base := `
name: changing
about: The backend changes.
for: 60s
load: [{ at: 0s, load: 4 }]
windows: [{ name: before, from: 5s, to: 20s }, { name: after, from: 40s, to: 60s }]
`
	for name, tc := range map[string]struct {
		more         string
		limit        int
		want, within float64 // answers after, as a multiple of those before
	}{
		"scale-out":        {"health: [{ at: 20s, workers: 16 }]\n", 16, 2, 0.05},
		"scale-in":         {"health: [{ at: 20s, workers: 4 }]\n", 8, 0.5, 0.05},
		"slow degradation": {"health: [{ at: 20s, slow: 4, over: 20s }]\n", 8, 0.25, 0.05},
		"half way":         {"health: [{ at: 20s, slow: 3, over: 60s }]\n", 8, 0.5, 0.15},
		"pauses":           {"pauses: { every: 100ms, for: 50ms }\nbackend: { workers: 8, service: { kind: constant, mean: 1ms } }\n", 8, 1, 0.05},
		"another mix": {
			"backend: { workers: 8, service: { kind: classes, mean: 10ms, other: 110ms, share: 0 } }\nhealth: [{ at: 20s, share: 0.1 }]\n", 8, 0.5, 0.05,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := played(t, base+tc.more, func(s *scenario.Scenario) lab.Contender { return fixedAt(s, tc.limit) })
			before, after := r.Windows[0], r.Windows[1]
			near(t, "served", float64(after.Answered)/after.Seconds, tc.want*float64(before.Answered)/before.Seconds, tc.within)
			if name == "pauses" {
				near(t, "served in pauses", float64(before.Answered)/before.Seconds, 4000, 0.05)
			}
		})
	}
}

// Patience is spread over the orders of magnitude between its bounds.
func TestPatienceIsSpread(t *testing.T) {
	text := quietRun("workers: 8", "0.5") +
		"health: [{ at: 0s, frozen: true }]\nclients: { patience: { least: 100ms, most: 10s } }\n"
	s := onlyVariant(t, text)
	s.For, s.Windows = scenario.Duration(20*time.Second), []scenario.Window{{Name: "all", To: scenario.Duration(20 * time.Second)}}
	least, most, below := time.Hour, time.Duration(0), 0
	var n int
	c := lab.Contender{Name: "asked", New: func(*lab.World) lab.Door {
		return asked(func(p time.Duration) {
			n++
			least, most = min(least, p), max(most, p)
			if p < time.Second {
				below++
			}
		})
	}}
	s.Clients.TellDeadline = true
	if _, err := lab.Play(s, c, 1, lab.PlayOptions{}); err != nil {
		t.Fatal(err)
	}
	if least < 100*time.Millisecond || least > 110*time.Millisecond || most > 10*time.Second || most < 9*time.Second {
		t.Errorf("patience goes from %v to %v; want 100ms to 10s", least, most)
	}
	near(t, "share below a second", float64(below)/float64(n), 0.5, 0.05)
}

// asked is a door that hears the patience of whom it refuses.
type asked func(time.Duration)

func (a asked) Enter(r lab.Request, e lab.Entrant) (withdraw func()) {
	a(r.Patience)
	e.Refused(nil)
	return nil
}

func (asked) Limit() int { return 0 }
