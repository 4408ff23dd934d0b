package algorithms_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/algorithms"
)

// leaver is a limit that hears of callers who leave.
type leaver interface {
	algorithms.Limit
	Left(now int64, age time.Duration, inFlight int)
}

// An impatient client once took everybody's limit from 100 to 1: twelve
// connections gave a healthy backend of 200 ms a deadline of 100 ms each, and
// every departure counted against the limit. Who leaves before the backend could
// have answered teaches nothing, whatever the algorithm.
func TestHurryTeachesNothing(t *testing.T) {
	for _, kind := range algorithms.Kinds() {
		if kind == algorithms.KindKnee {
			continue // what it measures must hang together: see TestKneeAndTheHurried
		}
		s := algorithms.Settings{Algorithm: kind}
		s.RequestTimeout = 90 * time.Millisecond // below the departures, too
		patient, hurried := mustNew(t, s), mustNew(t, s)
		for i := range 5000 {
			now := int64(i) * int64(20*time.Millisecond)
			latency := 200 * time.Millisecond
			if kind == algorithms.KindAIMD {
				latency = 80 * time.Millisecond
			}
			patient.Observe(now, latency, patient.Current(), false)
			hurried.Observe(now, latency, hurried.Current(), false)
			// They come and go: a baseline that fell with them would make a queue
			// of the time without them.
			if l, ok := hurried.(leaver); ok && i > 100 && i%1000 < 500 {
				l.Left(now, latency/2, l.Current())
				l.Left(now, latency/5, l.Current())
			}
		}
		if got, want := hurried.Current(), patient.Current(); got != want {
			t.Errorf("%s: limit %d with callers that leave after half the latency; want %d as without them", kind, got, want)
		}
	}
}

// Callers that leave because of the queue are the only news of it when nothing
// is answered any more: a departure older than the latency is a sample. Without
// it the limit of gradient stayed where it was, for ever.
func TestLateDeparturesAreSamples(t *testing.T) {
	for _, kind := range []string{algorithms.KindAIMD, algorithms.KindVegas, algorithms.KindGradient} {
		lim := mustNew(t, algorithms.Settings{Algorithm: kind}).(leaver)
		now := int64(0)
		for range 500 {
			now += int64(20 * time.Millisecond)
			lim.Observe(now, 20*time.Millisecond, lim.Current(), false)
		}
		before := lim.Current()
		for range 1000 {
			now += int64(20 * time.Millisecond)
			lim.Left(now, 400*time.Millisecond, lim.Current())
		}
		if got := lim.Current(); got >= before {
			t.Errorf("%s: limit %d after 20 s in which everybody left late; want less than %d", kind, got, before)
		}
	}
}

// Six errors in a hundred that come whatever the limit once took it to its
// minimum and kept it there.
func TestErrorsThatComeAnyway(t *testing.T) {
	for _, kind := range []string{algorithms.KindAIMD, algorithms.KindVegas, algorithms.KindGradient, algorithms.KindGradient2} {
		lim := mustNew(t, algorithms.Settings{Algorithm: kind})
		for i := range 30_000 {
			lim.Observe(int64(i)*int64(10*time.Millisecond), 10*time.Millisecond, lim.Current(), i%12 == 0)
		}
		if got := lim.Current(); got < 10 {
			t.Errorf("%s: limit %d after 5 min of 8 %% errors that no limit changes; want it back", kind, got)
		}
	}
}

func mustNew(t *testing.T, s algorithms.Settings) algorithms.Limit {
	t.Helper()
	s.Rand = lcg(3)
	lim, err := algorithms.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return lim
}
