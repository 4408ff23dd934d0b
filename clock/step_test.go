package clock_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/clock"
)

// stepped is a machine whose time a test moves; each reading takes 25 ns.
type stepped struct{ now int64 }

func (s *stepped) read() int64 {
	s.now += 25
	return s.now
}

// A program that plays time itself steps the guard through a fault: it notices
// at the next step, and trusts the clock again when the evidence has faded.
func TestStepFollowsPlayedTime(t *testing.T) {
	fault, err := clock.ParseFault("frozen@1s+1s")
	if err != nil {
		t.Fatal(err)
	}
	m := &stepped{}
	g := clock.New(clock.Options{Fault: fault, Recovery: 5 * time.Second, Sources: clock.Sources{
		Monotonic: m.read, Wall: m.read,
		Boottime: func() (int64, bool) { return m.read(), true },
		Source:   func() string { return "tsc" },
	}})
	step := func(at time.Duration) {
		m.now = max(m.now, int64(at))
		g.Step()
	}
	var lost, back time.Duration
	for at := time.Duration(0); at < 15*time.Second; at += 100 * time.Millisecond {
		step(at)
		switch trusted := g.Trusted(); {
		case !trusted && lost == 0:
			lost = at
		case trusted && lost != 0 && back == 0:
			back = at
		}
	}
	if lost < time.Second || lost > 1200*time.Millisecond {
		t.Errorf("trust was lost at %v; want within two steps of 1s", lost)
	}
	if back < 6*time.Second || back > 9*time.Second {
		t.Errorf("trust came back at %v; want about 5s after the fault ended at 2s", back)
	}
	if g.Epoch() == 0 {
		t.Error("intervals that span the fault are not told apart")
	}
}
