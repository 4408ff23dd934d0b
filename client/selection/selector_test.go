package selection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/client/selection"
	"github.com/admitd/admitd/labels"
)

// routers returns a sharded topology of n gates, all one millisecond away.
func routers(n int) *selection.Topology {
	t := &selection.Topology{Type: selection.Sharded}
	for i := range n {
		t.Servers = append(t.Servers, &selection.Server{
			Address: fmt.Sprintf("gate%d:8462", i), Type: selection.Mongos, RTT: selection.RTT{}.Add(time.Millisecond),
		})
	}
	return t
}

func hello(role labels.Role) labels.Hello {
	return labels.Hello{Role: role, MaxWireVersion: labels.WireVersion}
}

func seeds(t *testing.T, o selection.SeedOptions, addresses ...string) *selection.Topology {
	t.Helper()
	top, err := selection.Seeds(addresses, o)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// A waiting selection goes on at the very moment a server suits, although
// others have not answered yet.
func TestSelectWakesWhenTopologyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view := selection.NewView(seeds(t, selection.SeedOptions{}, "a:1", "b:1"))
		sel := selection.New(view, selection.Options{})
		time.AfterFunc(700*time.Millisecond, func() { view.MarkUnknown("a:1", errors.New("refused")) })
		time.AfterFunc(1300*time.Millisecond, func() {
			view.Answered("b:1", hello(labels.RoleRouter), time.Millisecond, time.Now())
		})
		start := time.Now()
		picked, err := sel.Select(t.Context(), selection.Operation{Write: true})
		if err != nil || picked.Server.Address != "b:1" {
			t.Fatalf("Select = %v, %v; want b:1", picked.Server, err)
		}
		if got := time.Since(start); got != 1300*time.Millisecond {
			t.Errorf("selected after %v, want exactly 1.3s", got)
		}
	})
}

// What ends a selection that finds nothing, and when, to the nanosecond.
func TestSelectGivesUp(t *testing.T) {
	for name, tc := range map[string]struct {
		options  selection.Options
		deadline time.Duration
		wantAt   time.Duration
		wantIs   error
	}{
		"after 30 s":         {wantAt: 30 * time.Second, wantIs: selection.ErrNoServer},
		"after the timeout":  {options: selection.Options{Timeout: time.Second}, wantAt: time.Second, wantIs: selection.ErrNoServer},
		"at the deadline":    {deadline: 2 * time.Second, wantAt: 2 * time.Second, wantIs: context.DeadlineExceeded},
		"at once":            {options: selection.Options{Timeout: -1}, wantAt: 0, wantIs: selection.ErrNoServer},
		"timeout comes last": {options: selection.Options{Timeout: time.Minute}, deadline: time.Hour, wantAt: time.Minute, wantIs: selection.ErrNoServer},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := t.Context(), func() {}
				if tc.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, tc.deadline)
				}
				defer cancel()
				sel := selection.New(selection.NewView(seeds(t, selection.SeedOptions{}, "a:1")), tc.options)
				start := time.Now()
				_, err := sel.Select(ctx, selection.Operation{Name: "find"})
				if !errors.Is(err, tc.wantIs) || !errors.Is(err, selection.ErrNoServer) {
					t.Errorf("Select: %v, want %v", err, tc.wantIs)
				}
				if got := time.Since(start); got != tc.wantAt {
					t.Errorf("gave up after %v, want exactly %v", got, tc.wantAt)
				}
			})
		})
	}
}

// A preference that can never be satisfied is not waited for.
func TestSelectDoesNotWaitForTheImpossible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sel := selection.New(selection.NewView(seeds(t, selection.SeedOptions{}, "a:1")), selection.Options{})
		op := selection.Operation{Preference: selection.ReadPreference{TagSets: []selection.TagSet{{"dc": "ny"}}}}
		start := time.Now()
		if _, err := sel.Select(t.Context(), op); !errors.Is(err, selection.ErrPreference) {
			t.Errorf("Select: %v, want ErrPreference", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		ready := selection.New(selection.NewView(routers(1)), selection.Options{})
		if _, err := ready.Select(ended, selection.Operation{}); !errors.Is(err, context.Canceled) {
			t.Errorf("Select after the context ended: %v, want Canceled", err)
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("took %v, want no time", got)
		}
	})
}

func TestSelectBoundsHowManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view := selection.NewView(seeds(t, selection.SeedOptions{}, "a:1"))
		sel := selection.New(view, selection.Options{MaxWaiting: 3})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := sel.Select(t.Context(), selection.Operation{}); err != nil {
					t.Errorf("one of three: %v", err)
				}
			})
		}
		synctest.Wait()
		if _, err := sel.Select(t.Context(), selection.Operation{}); !errors.Is(err, selection.ErrTooManyWaiting) {
			t.Errorf("the fourth: %v, want ErrTooManyWaiting", err)
		}
		view.Answered("a:1", hello(labels.RoleStandalone), 0, time.Now())
		wg.Wait()
		if got := view.Topology().Servers[0].Operations(); got != 3 {
			t.Errorf("operations = %d, want 3", got)
		}
	})
}

func TestLeastLoadedPrefersHeadroom(t *testing.T) {
	top := routers(3)
	for i, headroom := range []int64{5, 50, 0} {
		top.Servers[i].Load = selection.Load{Headroom: headroom, Limit: 50, Reported: i < 2}
	}
	view := selection.NewView(top)
	sel := selection.New(view, selection.Options{LeastLoaded: true})
	for range 10 { // all stay open: operations alone would spread them evenly
		picked, err := sel.Select(t.Context(), selection.Operation{Deprioritized: []string{"gate2:8462"}})
		if err != nil || picked.Server.Address != "gate1:8462" {
			t.Fatalf("Select = %v, %v; want the one with headroom 50", picked.Server, err)
		}
	}
	// gate1 is full of operations, and gate2 reports nothing: against it the
	// count decides.
	picked, err := sel.Select(t.Context(), selection.Operation{Deprioritized: []string{"gate0:8462"}})
	if err != nil || picked.Server.Address != "gate2:8462" {
		t.Errorf("Select = %v, %v; want the idle one, as one side reports no load", picked.Server, err)
	}
}

// The application's selector sees suitable servers only, and servers that it
// leaves no choice but to avoid are used after all.
func TestFilter(t *testing.T) {
	top := routers(3)
	top.Servers[2].Type = selection.Unknown
	var saw []string
	sel := selection.New(selection.NewView(top), selection.Options{Filter: func(all []*selection.Server) []*selection.Server {
		saw = addresses(all)
		foreign := &selection.Server{Address: "elsewhere:1"}
		return append(slices.DeleteFunc(all, func(s *selection.Server) bool { return s.Address != "gate0:8462" }), foreign, nil)
	}})
	for _, avoid := range [][]string{nil, {"gate1:8462"}, {"gate0:8462"}} {
		picked, err := sel.Select(t.Context(), selection.Operation{Deprioritized: avoid})
		if err != nil || picked.Server.Address != "gate0:8462" {
			t.Errorf("avoiding %v: Select = %v, %v; want gate0", avoid, picked.Server, err)
		}
	}
	if want := []string{"gate0:8462", "gate1:8462"}; !slices.Equal(saw, want) {
		t.Errorf("the filter saw %v, want %v", saw, want)
	}
}

// Whatever is selected and ended in whatever order, each server's count is the
// operations open on it.
func TestOperationsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		view := selection.NewView(routers(3))
		sel := selection.New(view, selection.Options{})
		var open []*selection.Selected
		count := map[string]int64{}
		t.Repeat(map[string]func(*rapid.T){
			"select": func(t *rapid.T) {
				picked, err := sel.Select(context.Background(), selection.Operation{})
				if err != nil {
					t.Skip("every server failed")
				}
				open = append(open, &picked)
				count[picked.Server.Address]++
			},
			"end": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing open")
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				count[open[i].Server.Address]--
				open[i].Done()
				open[i].Done() // the second does not count
				open = slices.Delete(open, i, i+1)
			},
			"refresh": func(t *rapid.T) {
				address := rapid.SampledFrom([]string{"gate0:8462", "gate1:8462", "gate2:8462"}).Draw(t, "server")
				view.Answered(address, hello(labels.RoleRouter), time.Millisecond, time.Now())
			},
			"": func(t *rapid.T) {
				for _, s := range view.Topology().Servers {
					if s.Operations() != count[s.Address] {
						t.Fatalf("%s has %d operations, want %d", s.Address, s.Operations(), count[s.Address])
					}
				}
			},
		})
	})
}

// An error of an operation takes the server out, unless the server answered
// since the operation began.
func TestFailedTakesTheServerOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := routers(1)
		view := selection.NewView(top)
		sel := selection.New(view, selection.Options{Timeout: -1})
		broken := errors.New("connection reset")

		picked, _ := sel.Select(t.Context(), selection.Operation{})
		time.Sleep(time.Second)
		view.Answered("gate0:8462", hello(labels.RoleRouter), time.Millisecond, time.Now())
		picked.Failed(broken)
		picked, err := sel.Select(t.Context(), selection.Operation{})
		if err != nil {
			t.Fatalf("after an outdated error: %v, want a server", err)
		}
		picked.Failed(broken)
		picked.Failed(broken)
		if _, err = sel.Select(t.Context(), selection.Operation{}); !errors.Is(err, broken) {
			t.Errorf("after an error: %v, want %v", err, broken)
		}
		s := view.Topology().Servers[0]
		if _, known := s.RTT.Average(); known || s.Operations() != 0 {
			t.Errorf("unknown server has round trip %v and %d operations, want neither", s.RTT, s.Operations())
		}
		view.Answered("gate0:8462", hello(labels.RoleRouter), 40*time.Millisecond, time.Now())
		if rtt, _ := view.Topology().Servers[0].RTT.Average(); rtt != 40*time.Millisecond {
			t.Errorf("round trip after the return = %v, want 40ms: the average starts anew", rtt)
		}
	})
}

func BenchmarkSelect100(b *testing.B) {
	for name, kind := range map[string]selection.ServerType{"routers": selection.Mongos, "set": selection.RSSecondary} {
		for _, tags := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/tags=%t", name, tags), func(b *testing.B) {
				top, op := routers(100), nearest()
				for i, s := range top.Servers {
					s.Type = kind
					s.Tags = map[string]string{"dc": "ny", "rack": fmt.Sprint(i)}
					s.RTT = selection.RTT{}.Add(time.Duration(i%30) * time.Millisecond)
				}
				if kind == selection.RSSecondary {
					top.Type = selection.ReplicaSetNoPrimary
				}
				if tags {
					op.Preference.TagSets = []selection.TagSet{{"dc": "ny"}}
				}
				sel := selection.New(selection.NewView(top), selection.Options{})
				b.ReportAllocs()
				for b.Loop() {
					picked, err := sel.Select(b.Context(), op)
					if err != nil {
						b.Fatal(err)
					}
					picked.Done()
				}
			})
		}
	}
}

// Selecting must cost nothing that the garbage collector has to take back.
func TestSelectDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector sync.Pool drops things on purpose")
	}
	sel := selection.New(selection.NewView(routers(100)), selection.Options{})
	op, ctx := nearest(), t.Context()
	got := testing.AllocsPerRun(1000, func() {
		picked, err := sel.Select(ctx, op)
		if err != nil {
			t.Fatal(err)
		}
		picked.Done()
	})
	if got > 0 {
		t.Errorf("Select allocates %.1f times, want never", got)
	}
}
