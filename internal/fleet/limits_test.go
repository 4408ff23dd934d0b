package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/fleet"
	"github.com/admitd/admitd/internal/fleet/pool"
	"github.com/admitd/admitd/limiter"
)

// fixed is an algorithm that says the same for ever, divided among gates.
type fixed int

func (f fixed) Current() int                          { return int(f) }
func (fixed) Observe(int64, time.Duration, int, bool) {}

// limited is a gate that shares a limit of 40 in real time.
type limited struct {
	*fleet.Group

	limit *pool.Limit
	stop  func()
}

func joinLimit(t *testing.T, r fleet.Redis) *limited {
	t.Helper()
	l := pool.New(pool.Options{Gates: 2, Make: func(_, gates, _ int) pool.Algorithm { return fixed(40 / gates) }})
	seen := quick()
	seen.Gates = 0 // as many as were seen: nobody is expected when one has left
	g, err := fleet.New(fleet.Options{
		Redis: r, Name: "orders", Settings: seen, Now: now,
		Buckets: func(func(string, string, *limiter.Bucket) bool) {},
		Limits:  func(yield func(string, *pool.Limit) bool) { yield("orders/=default", l) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = g.Run(ctx) })
	stop := sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return &limited{Group: g, limit: l, stop: stop}
}

// Gates share a limit through a real Redis: they split it, one leads; one that
// leaves gives its part back, one that is killed loses it, and without Redis each
// goes on with half.
func TestLimitThroughRedis(t *testing.T) {
	r := startRedis(t)
	at := fleet.Redis{Addresses: []string{r.addr}}
	a, b := joinLimit(t, at), joinLimit(t, at)
	all := 40 + pool.Spare(2)
	split := func() bool {
		return a.limit.Current()+b.limit.Current() == all && a.limit.Current() == b.limit.Current()
	}
	eventually(t, "two gates have half each", split)
	if leads := a.limit.State()["fleet_leads"] + b.limit.State()["fleet_leads"]; leads > 1 {
		t.Errorf("%v gates lead", leads)
	}
	c := joinLimit(t, at)
	eventually(t, "three gates have a third each", func() bool {
		sum := a.limit.Current() + b.limit.Current() + c.limit.Current()
		return sum == 40+pool.Spare(3) && c.limit.Current() >= 13
	})
	c.stop()
	eventually(t, "the others have it back", split)
	key := "admitd:{orders}:l:orders/=default"
	r.do("HSET", key, "lead", "x", "verdict", "y", "g:x", "z")
	eventually(t, "what cannot be read is put up anew", func() bool {
		return split() && a.limit.State()["fleet_leads"]+b.limit.State()["fleet_leads"] == 1 && r.do("HGET", key, "lead") != "x"
	})
	r.do("SET", key, "x")
	eventually(t, "a limit that is not answered is told", func() bool {
		m, problem := a.Mode()
		return m == fleet.Partly && strings.Contains(problem, "WRONGTYPE") && a.limit.State()["fleet_alone"] == 1
	})
	r.do("DEL", key)
	eventually(t, "and shared again", func() bool { m, _ := a.Mode(); return split() && m == fleet.Leased })
	r.kill()
	alone := func() bool { return a.limit.State()["fleet_alone"] == 1 && b.limit.State()["fleet_alone"] == 1 }
	eventually(t, "each goes on alone", alone)
	if a.limit.Current() > 20 || b.limit.Current() > 20 {
		t.Errorf("alone they hold %d and %d of 40; want 20 at most", a.limit.Current(), b.limit.Current())
	}
	r.start()
	eventually(t, "they share again", func() bool { return split() && !alone() })
	a.stop()
	eventually(t, "the last has all", func() bool { return b.limit.Current() == 40 && b.limit.State()["fleet_leads"] == 1 })
}

// The script does what the board in memory does, on which the rest is tested.
func TestScriptIsTheBoardInMemory(t *testing.T) {
	w := newWorld(t, 1, limiter.Rate{PerSecond: 1}, 1)
	var m pool.Memory
	life := 600 * time.Millisecond
	for i := range 200 {
		w.wall = w.wall.Add(time.Duration(w.rand.IntN(300)) * time.Millisecond)
		w.redis.SetTime(w.wall)
		row := pool.Row{ID: fmt.Sprintf("gate%d", w.rand.IntN(4)), Share: w.rand.IntN(9), Samples: pool.Samples{Counts: map[int]uint64{3: uint64(i + 1)}}}
		var verdict *pool.Verdict
		if w.rand.IntN(2) == 0 {
			verdict = &pool.Verdict{Fence: uint64(w.rand.IntN(8)), Limit: i + 1, Base: time.Millisecond}
		}
		want := m.Exchange(w.wall.UnixMicro(), life.Microseconds(), row, verdict)
		got, err := w.gates[0].Exchange(life, &row, verdict)
		if err != nil {
			t.Fatal(err)
		}
		if g, m := fmt.Sprintf("%v %d %v %v", got.Leads, got.Fence, got.Verdict, got.Rows), fmt.Sprintf("%v %d %v %v", want.Leads, want.Fence, want.Verdict, want.Rows); g != m {
			t.Fatalf("exchange %d: the script says %s, the board in memory %s", i, g, m)
		}
	}
}

// What is no board is not taken for one.
func TestBoardThatCannotBeRead(t *testing.T) {
	for text, ok := range map[string]bool{
		"1 2 3\n2 40 1000\ng 1 2 3 4 5 6 7 8 9:1,": true,
		"1 2 3\n2 40 1000\na row of a newer gate":  true,
		"1 2 3":                    false,
		"1 2\n2 40 1000":           false,
		"1 2 3\n2 40":              false,
		"1 x 3\n2 40 1000":         false,
		"1 2 3\n2 -40 1000":        false,
		"1 2 3\n2 40 99999999e9":   false,
		"":                         false,
		"ERR\nno such limit\nhere": false,
	} {
		if err := fleet.CheckBoard(text); (err == nil) != ok {
			t.Errorf("%q: %v; want ok %v", text, err, ok)
		}
	}
}
