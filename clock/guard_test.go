package clock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/clock"
)

// machine is a set of clocks in a bubble. Real time is the bubble's, plus 30 ns
// for every reading, as reading a clock takes time on a machine.
type machine struct {
	start  time.Time
	reads  atomic.Int64
	step   atomic.Int64 // width of the guarded clock's steps, 0 = 1 ns
	ahead  atomic.Int64 // of the guarded clock
	asleep atomic.Int64 // time that only the boot and wall clocks saw
	set    atomic.Int64 // what was added to the time of day
	slow   atomic.Int64 // ns that a reading takes beyond 30
	dip    int64        // the reading of the guarded clock that is a millisecond late; 0 = none
	monos  atomic.Int64 // readings of the guarded clock
	name   atomic.Value
	noBoot bool
}

func (m *machine) real() int64 {
	return int64(time.Since(m.start)) + (30+m.slow.Load())*m.reads.Add(1)
}

func (m *machine) sources() clock.Sources {
	return clock.Sources{
		Monotonic: func() int64 {
			now := m.real() + m.ahead.Load()
			if m.monos.Add(1) == m.dip {
				now -= int64(time.Millisecond)
			}
			return now - now%max(1, m.step.Load())
		},
		Boottime: func() (int64, bool) { return m.real() + m.asleep.Load(), !m.noBoot },
		Wall:     func() int64 { return m.real() + m.asleep.Load() + m.set.Load() },
		Source: func() string {
			name, _ := m.name.Load().(string)
			return name
		},
	}
}

// change is a change of state and when it came, in time since the start.
type change struct {
	At     time.Duration
	State  string
	Reason clock.Reason
}

// watch runs a guard in a bubble for the given time and returns it with every
// change of state. do happens at its times.
func watch(t *testing.T, m *machine, o clock.Options, length time.Duration, do map[time.Duration]func(*clock.Guard)) (*clock.Guard, []change) {
	t.Helper()
	m.start = time.Now()
	var changes []change
	o.Sources = m.sources()
	o.OnChange = func(s clock.Status) {
		changes = append(changes, change{time.Since(m.start), s.State.String(), s.Reason})
	}
	g := clock.New(o)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	for at, f := range do {
		time.AfterFunc(at, func() { f(g) })
	}
	if err := g.Run(ctx); err != nil {
		t.Fatalf("Run: %v", err)
	}
	return g, changes
}

func fault(t *testing.T, spec string) *clock.Fault {
	t.Helper()
	f, err := clock.ParseFault(spec)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Every fault is noticed at the next tick, and ten clean minutes after its
// last trace the clock is good again.
func TestStates(t *testing.T) {
	const s, ms, recovery = time.Second, time.Millisecond, 10 * time.Minute
	const at = 10*s + 50*ms // between two ticks
	for name, tc := range map[string]struct {
		fault string
		do    map[time.Duration]func(*clock.Guard, *machine)
		want  []change
	}{
		"nothing happens": {},
		"frozen": {
			fault: "frozen@10050ms+20s",
			// The reading of 30.1 s is the first that moved on: 20 s at once.
			want: []change{{10*s + 100*ms, "bad", clock.Stopped}, {30*s + 100*ms + recovery, "good", ""}},
		},
		"runs backwards": {
			fault: "backwards=30ms@10050ms+1s",
			want:  []change{{10*s + 100*ms, "bad", clock.Decreasing}, {11*s + 100*ms + recovery, "good", ""}},
		},
		"an hour ahead": {
			fault: "jump=1h@10050ms",
			want:  []change{{10*s + 100*ms, "bad", clock.Jumped}, {10*s + 100*ms + recovery, "good", ""}},
		},
		"an hour behind and back": {
			fault: "jump=-1h@10050ms+1m",
			want:  []change{{10*s + 100*ms, "bad", clock.Decreasing}, {70*s + 100*ms + recovery, "good", ""}},
		},
		"coarse": {
			fault: "coarse=10ms@10050ms+55s",
			// Once it is bad, only every 10 s are its steps worth a look.
			want: []change{{10*s + 100*ms, "bad", clock.Coarse}, {60*s + recovery, "good", ""}},
		},
		"a little coarse": {
			fault: "coarse=5us@10050ms+1m",
			want:  []change{{10*s + 100*ms, "suspect", clock.Equal}, {70*s + recovery, "good", ""}},
		},
		"source changes": {
			do: map[time.Duration]func(*clock.Guard, *machine){
				at: func(_ *clock.Guard, m *machine) { m.name.Store("kvm-clock") },
			},
			want: []change{{30 * s, "suspect", clock.SourceChanged}, {30*s + recovery, "good", ""}},
		},
		"suspended, paused and set are events": {
			do: map[time.Duration]func(*clock.Guard, *machine){
				at:         func(_ *clock.Guard, m *machine) { m.asleep.Add(int64(time.Hour)) },
				at + 1*s:   func(_ *clock.Guard, m *machine) { m.set.Add(-int64(time.Hour)) },
				at + 100*s: func(_ *clock.Guard, m *machine) { m.reads.Add(int64(s / 30)) },
			},
		},
		"one in fifty samples is impossible": {
			do:   map[time.Duration]func(*clock.Guard, *machine){at: func(g *clock.Guard, _ *machine) { samples(g, 490, 10) }},
			want: []change{{60 * s, "bad", clock.BadSamples}, {60*s + recovery, "good", ""}},
		},
		"one in five hundred samples is impossible": {
			do:   map[time.Duration]func(*clock.Guard, *machine){at: func(g *clock.Guard, _ *machine) { samples(g, 499, 1) }},
			want: []change{{60 * s, "suspect", clock.BadSamples}, {60*s + recovery, "good", ""}},
		},
		"too few samples to tell": {
			do: map[time.Duration]func(*clock.Guard, *machine){at: func(g *clock.Guard, _ *machine) { samples(g, 0, 99) }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m machine
				m.name.Store("tsc")
				do := map[time.Duration]func(*clock.Guard){}
				for at, f := range tc.do {
					do[at] = func(g *clock.Guard) { f(g, &m) }
				}
				g, got := watch(t, &m, clock.Options{Fault: fault(t, tc.fault)}, 15*time.Minute, do)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("changes of state (-want +got):\n%s", diff)
				}
				for _, c := range got {
					if c.Reason != "" && g.Status().Counts[c.Reason] == 0 {
						t.Errorf("%s was not counted: %v", c.Reason, g.Status().Counts)
					}
				}
			})
		})
	}
}

// Events count, break intervals where they do, and leave the clock trusted.
func TestEvents(t *testing.T) {
	const s = time.Second
	synctest.Test(t, func(t *testing.T) {
		var m machine
		g, changes := watch(t, &m, clock.Options{}, time.Minute, map[time.Duration]func(*clock.Guard){
			10*s + 1: func(*clock.Guard) { m.asleep.Add(int64(time.Hour)) },
			20*s + 1: func(*clock.Guard) { m.set.Add(-int64(time.Hour)) },
			30*s + 1: func(*clock.Guard) { m.reads.Add(int64(s / 30)) }, // everything stands still for a second
		})
		if len(changes) > 0 {
			t.Errorf("changes of state: %v; want none", changes)
		}
		got := g.Status()
		want := map[clock.Reason]uint64{clock.Suspended: 1, clock.WallStep: 1, clock.Paused: 1}
		if diff := cmp.Diff(want, got.Counts); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
		if got.Epoch != 2 || !got.Trusted {
			t.Errorf("Epoch, Trusted = %d, %t; want 2 (suspension and pause), true", got.Epoch, got.Trusted)
		}
	})
}

// Without a boot clock a step of the time of day proves nothing, in either
// direction, and a clock that stands still is still found.
func TestWithoutBootClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := machine{noBoot: true}
		g, changes := watch(t, &m, clock.Options{Fault: fault(t, "frozen@30050ms+1s")}, time.Minute, map[time.Duration]func(*clock.Guard){
			10 * time.Second: func(*clock.Guard) { m.set.Add(-int64(time.Hour)) },
			20 * time.Second: func(*clock.Guard) { m.set.Add(int64(2 * time.Hour)) },
		})
		if want := []change{{30*time.Second + 100*time.Millisecond, "bad", clock.Stopped}}; !cmp.Equal(want, changes) {
			t.Errorf("changes of state: %v; want %v", changes, want)
		}
		if got := g.Status().Counts[clock.WallStep]; got < 2 {
			t.Errorf("wall steps = %d; want the 2 that were made", got)
		}
	})
}

// The shortest interval that matters makes a clock bad that would otherwise be
// no more than odd.
func TestShortest(t *testing.T) {
	for shortest, want := range map[time.Duration]clock.State{0: clock.Suspect, 10 * time.Millisecond: clock.Suspect, 4 * time.Millisecond: clock.Bad} {
		synctest.Test(t, func(t *testing.T) {
			var m machine
			m.step.Store(int64(50 * time.Microsecond))
			g, _ := watch(t, &m, clock.Options{Shortest: shortest}, time.Second, nil)
			if got := g.Status().State; got != want {
				t.Errorf("steps of 50 us with a shortest interval of %v: state %v; want %v", shortest, got, want)
			}
		})
	}
}

// A reload may bring a shorter interval. The guard once knew only the one it was
// started with.
func TestShortestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m machine
		m.step.Store(int64(50 * time.Microsecond))
		g, _ := watch(t, &m, clock.Options{}, 15*time.Second, map[time.Duration]func(*clock.Guard){
			time.Second: func(g *clock.Guard) { g.SetShortest(4 * time.Millisecond) },
		})
		if got := g.Status().State; got != clock.Bad {
			t.Errorf("steps of 50 us, then a shortest interval of 4 ms: state %v; want bad", got)
		}
	})
}

// The operator has the last word.
func TestModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m machine
		var trusted sync.Map
		g, _ := watch(t, &m, clock.Options{Mode: clock.Fixed, Fault: fault(t, "frozen@10s")}, time.Minute, map[time.Duration]func(*clock.Guard){
			5 * time.Second:  func(g *clock.Guard) { trusted.Store("fixed, good", g.Trusted()) },
			6 * time.Second:  func(g *clock.Guard) { g.SetMode(clock.Auto); trusted.Store("auto, good", g.Trusted()) },
			20 * time.Second: func(g *clock.Guard) { trusted.Store("auto, bad", g.Trusted()) },
			21 * time.Second: func(g *clock.Guard) { g.SetMode(clock.Off); trusted.Store("off, bad", g.Trusted()) },
		})
		got := map[string]bool{}
		trusted.Range(func(when, is any) bool { got[when.(string)] = is.(bool); return true })
		want := map[string]bool{"fixed, good": false, "auto, good": true, "auto, bad": false, "off, bad": true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Trusted() (-want +got):\n%s", diff)
		}
		if s := g.Status(); s.Mode != clock.Off || s.State != clock.Bad || !s.Trusted {
			t.Errorf("Status() = %+v; want mode off, state bad, trusted", s)
		}
	})
}

// The words of the configuration, and no other.
func TestParseMode(t *testing.T) {
	for text, want := range map[string]string{"": "auto", "auto": "auto", "fixed": "fixed", "off": "off"} {
		if got, err := clock.ParseMode(text); err != nil || got.String() != want {
			t.Errorf("ParseMode(%q) = %v, %v; want %s", text, got, err, want)
		}
	}
	if _, err := clock.ParseMode("Auto"); err == nil {
		t.Error("ParseMode(\"Auto\") succeeded; want an error")
	}
}

// A clock that is dear to read is suspect, and one that is not dear is not.
func TestSlowReadings(t *testing.T) {
	for slow, want := range map[time.Duration][]change{
		460 * time.Nanosecond: nil,
		480 * time.Nanosecond: {{At: 0, State: "suspect", Reason: clock.SlowRead}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var m machine
			m.slow.Store(int64(slow))
			g, got := watch(t, &m, clock.Options{}, time.Minute, nil)
			if diff := cmp.Diff(want, got); diff != "" || (g.Status().Counts[clock.SlowRead] > 0) != (want != nil) {
				t.Errorf("readings of 30 ns + %v: counts %v, changes (-want +got):\n%s", slow, g.Status().Counts, diff)
			}
		})
	}
}

// A clock that differs between processors is found when two of them read it, after the
// readings by one.
func TestClockThatDiffersBetweenProcessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := machine{dip: 100_000} // one reads it 20,000 times before, and seldom afterwards
		_, got := watch(t, &m, clock.Options{}, time.Second, nil)
		if want := []change{{At: 0, State: "bad", Reason: clock.Decreasing}}; !cmp.Equal(got, want) {
			t.Errorf("changes %v; want %v", got, want)
		}
	})
}

// The status may be read while the guard works.
func TestStatusWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m machine
		reads := map[time.Duration]func(*clock.Guard){}
		for i := range 100 { // at the ticks
			reads[time.Duration(i)*100*time.Millisecond] = func(g *clock.Guard) {
				if s := g.Status(); s.Mode != clock.Auto {
					t.Errorf("mode %v", s.Mode)
				}
			}
		}
		watch(t, &m, clock.Options{}, 10*time.Second, reads)
	})
}

// Samples that were not judged yet are part of the status.
func TestSamples(t *testing.T) {
	g := clock.New(clock.Options{})
	samples(g, 70, 3)
	if s := g.Status(); s.Samples != 73 || s.Bad != 3 {
		t.Errorf("Status: %d samples, %d bad; want 73, 3", s.Samples, s.Bad)
	}
}

// This machine's own clock passes the first look, unless it does step back or
// stand still, which a test can do nothing about but report.
func TestThisMachine(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := clock.New(clock.Options{})
	if err := g.Run(ctx); err != nil {
		t.Fatal(err)
	}
	s := g.Status()
	t.Logf("%v, source %q, %v", s.State, s.Source, s.Counts)
	if s.State == clock.Bad {
		t.Errorf("state %v because of %s (source %q); want a clock that can be trusted", s.State, s.Reason, s.Source)
	}
	if first, second := g.Now(), g.Now(); first < 0 || second < first {
		t.Errorf("Now() = %d, then %d; want them to grow from 0", first, second)
	}
}

// The request path allocates nothing.
func TestRequestPathAllocatesNothing(t *testing.T) {
	g := clock.New(clock.Options{Fault: fault(t, "coarse=1ms@0s,jump=1s@0s")})
	if allocs := testing.AllocsPerRun(1000, func() { g.Now(); g.Trusted(); g.Epoch(); g.Sample(true) }); allocs != 0 {
		t.Errorf("%v allocations; want 0", allocs)
	}
}

func BenchmarkNow(b *testing.B) {
	g := clock.New(clock.Options{})
	b.ReportAllocs()
	for b.Loop() {
		g.Now()
	}
}

func BenchmarkSample(b *testing.B) {
	g := clock.New(clock.Options{})
	b.ReportAllocs()
	for b.Loop() {
		g.Sample(true)
	}
}

func samples(g *clock.Guard, good, bad int) {
	for range good {
		g.Sample(true)
	}
	for range bad {
		g.Sample(false)
	}
}
