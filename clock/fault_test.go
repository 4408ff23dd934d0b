package clock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/clock"
)

// Each fault bends readings within its span and leaves them alone outside.
func TestFaults(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for spec, want := range map[string]map[time.Duration]time.Duration{
		"frozen@10s+20s":        {10*s - 1: 10*s - 1, 10 * s: 10 * s, 15 * s: 10 * s, 30*s - 1: 10 * s, 30 * s: 30 * s},
		"backwards=50ms@10s+5s": {9 * s: 9 * s, 10 * s: 10 * s, 10*s + 10*ms: 10*s - 10*ms, 10*s + 49*ms: 10*s - 49*ms, 10*s + 50*ms: 10*s + 50*ms, 15 * s: 15 * s},
		"jump=1h@10s":           {10*s - 1: 10*s - 1, 10 * s: time.Hour + 10*s, 24 * time.Hour: 25 * time.Hour},
		"jump=-1h@10s+5s":       {10 * s: 10*s - time.Hour, 15 * s: 15 * s},
		"coarse=10ms@0s+1m":     {0: 0, 9 * ms: 0, 10*ms + 1: 10 * ms, 61*s + 1: 61*s + 1},
		"jump=1s@0s,frozen@5s":  {1 * s: 2 * s, 6 * s: 5 * s},
	} {
		t.Run(spec, func(t *testing.T) {
			f, err := clock.ParseFault(spec)
			if err != nil {
				t.Fatal(err)
			}
			got := map[time.Duration]time.Duration{}
			for at := range want {
				g := clock.New(clock.Options{Fault: f, Sources: clock.Sources{Monotonic: func() int64 { return int64(at) }}})
				got[at] = time.Duration(g.Now())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("readings by real time (-want +got):\n%s", diff)
			}
			again, err := clock.ParseFault(f.String())
			if err != nil || again.String() != f.String() {
				t.Errorf("ParseFault(%q) = %v, %v; want it to read back", f, again, err)
			}
		})
	}
}

// What cannot be meant is refused, and the message quotes it.
func TestParseFaultRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"frozen":                                 "want kind[=amount]@start[+length]",
		"melted@1s":                              "unknown kind",
		"frozen=1s@1s":                           "need an amount, frozen has none",
		"jump@1s":                                "need an amount",
		"jump=x@1s":                              "invalid duration",
		"jump=0s@1s":                             "must not be 0",
		"backwards=-5ms@1s":                      "out of range",
		"coarse=10ms@-1s":                        "out of range",
		"coarse=10ms@1s+0s":                      "must not be 0",
		"jump=999999h@1s":                        "out of range",
		"frozen@1s,":                             "want kind",
		strings.Repeat("frozen@1s,", 16) + "x@y": "unknown kind",
		strings.Repeat("frozen@1s,", 16) + "frozen@1s": "more than 16",
	} {
		if f, err := clock.ParseFault(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseFault(%q) = %v, %v; want an error with %q", spec, f, err, want)
		}
	}
	if f, err := clock.ParseFault(" "); f != nil || err != nil {
		t.Errorf("ParseFault of nothing = %v, %v; want nil, nil", f, err)
	}
}

// Whatever is accepted reads back to the same and never panics when applied.
func FuzzParseFault(f *testing.F) {
	for _, spec := range []string{"frozen@10s+20s", "backwards=50ms@10s+5s", "jump=-1h@1s", "coarse=10ms@0s,jump=1ns@1h+1h", "jump=1h"} {
		f.Add(spec, int64(time.Minute))
	}
	f.Fuzz(func(t *testing.T, spec string, now int64) {
		fault, err := clock.ParseFault(spec)
		if err != nil || fault == nil {
			return
		}
		again, err := clock.ParseFault(fault.String())
		if err != nil || again.String() != fault.String() {
			t.Errorf("ParseFault(%q) = %v, %v; want it to read back", fault, again, err)
		}
		clock.New(clock.Options{Fault: fault, Sources: clock.Sources{Monotonic: func() int64 { return now }}}).Now()
	})
}
