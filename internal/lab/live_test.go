package lab_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/openloop"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// liveScenario returns ten seconds of steady load.
func liveScenario(t *testing.T, more string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse([]byte(smallest + more))
	if err != nil {
		t.Fatal(err)
	}
	v, _ := s.Variant("default")
	return v
}

// A live run keeps its schedule on a target that answers, and counts latency
// from the moment at which a request was due.
func TestLiveKeepsItsSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes, seconds int
		live := lab.Live{
			Scenario: liveScenario(t, "health: [{ at: 5s, slow: 2 }]\n"), Capacity: 100,
			Send: func(context.Context, string) openloop.Sent {
				time.Sleep(40 * time.Millisecond)
				return openloop.Sent{Verdict: measure.Answered, Attempts: 1}
			},
			Health:   func(scenario.HealthStep) { changes++ },
			Limit:    func() int { return 7 + changes },
			Progress: func(time.Duration) { seconds++ },
		}
		begin := time.Now()
		out, err := live.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("10 s of load took %v", took)
		}
		w := out.Result.Windows[0]
		if out.Void() || out.Missed != 0 || out.Scheduled < 900 || out.Scheduled > 1100 || w.Good != int(out.Scheduled) {
			t.Errorf("%d scheduled, %d missed, %d good", out.Scheduled, out.Missed, w.Good)
		}
		if w.P50 < 0.0399 || w.P50 > 0.0401 {
			t.Errorf("p50 is %v s; want 0.04", w.P50)
		}
		if first, last := out.Result.Series[2].Limit, out.Result.Series[15].Limit; first != 7 || last != 8 || w.Limit < 7.4 || w.Limit > 7.6 {
			t.Errorf("the limit was %d at first, %d later and %v on average; want 7, 8 and half of the time each", first, last, w.Limit)
		}
		attempts := 0
		for _, step := range out.Result.Series {
			attempts += step.Attempts
		}
		if attempts != w.Attempts || attempts != int(out.Scheduled) {
			t.Errorf("%d attempts over time, %d in the window; want one of each request", attempts, w.Attempts)
		}
		if changes != 1 || seconds != 10 {
			t.Errorf("%d changes of health and %d seconds were told; want 1 and 10", changes, seconds)
		}
	})
}

// A sender that is held up misses its schedule, and the run is void.
func TestLiveIsVoidWhenLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := lab.Live{
			Scenario: liveScenario(t, ""), Capacity: 100,
			Send: func(context.Context, string) openloop.Sent {
				return openloop.Sent{Verdict: measure.Answered, Attempts: 1}
			},
			Progress: func(time.Duration) { time.Sleep(100 * time.Millisecond) }, // holds up whoever sends
		}
		out, err := live.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !out.Void() {
			t.Errorf("%d of %d sends were late, and the run counts", out.Missed, out.Scheduled)
		}
	})
}

// A live run ends when it is told to, and refuses what it cannot do.
func TestLiveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		live := lab.Live{Scenario: liveScenario(t, ""), Capacity: 10, Send: func(ctx context.Context, _ string) openloop.Sent {
			<-ctx.Done()
			return openloop.Sent{Verdict: measure.Failed, Attempts: 1}
		}}
		begin := time.Now()
		if _, err := live.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run() = %v; want the deadline", err)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("it ended after %v; want 1s", took)
		}
		for _, virtual := range []string{"gates: 2\n", "bursts: [{ at: 1s, requests: 1 }]\n", "clock: frozen@1s\n", "reloadEvery: 1s\n"} {
			live.Scenario = liveScenario(t, virtual)
			if _, err := live.Run(t.Context()); err == nil {
				t.Errorf("%q cannot be played live, and was", virtual)
			}
		}
		live.Scenario, live.Capacity = liveScenario(t, ""), 0
		if _, err := live.Run(t.Context()); err == nil {
			t.Error("a run without a capacity was made")
		}
	})
}
