package topkeys_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/topkeys"
)

// play tells a board of rate requests a second, of an asker that who draws.
func play(b *topkeys.Board, seconds, rate int, who func(r *rand.Rand) (topkeys.Asker, bool)) {
	r := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(1e9, 0)
	b.Turn(now)
	for s := range seconds {
		for range rate {
			if b.Due() {
				a, refused := who(r)
				b.Saw(&a, refused)
			}
		}
		b.Turn(now.Add(time.Duration(s+1) * time.Second))
	}
}

// Who makes the load is found among very many, at any rate, with about the figures
// that are true.
func TestTheOneThatStorms(t *testing.T) {
	storm, refused := netip.MustParseAddr("10.9.8.7"), netip.MustParseAddr("2001:db8::1")
	for _, rate := range []int{50, 2000, 100_000} {
		var b topkeys.Board
		play(&b, 40, rate, func(r *rand.Rand) (topkeys.Asker, bool) {
			op := topkeys.Operation{Verb: "GET", Object: fmt.Sprintf("/things/%d", r.IntN(1e6))}
			switch d := r.Float64(); {
			case d < 0.3:
				return topkeys.Asker{Client: storm, Application: "batch", User: "eve", Operation: topkeys.Operation{Verb: "find", Object: "orders"}}, false
			case d < 0.4:
				return topkeys.Asker{Client: refused, Application: "web", Operation: op}, true
			}
			return topkeys.Asker{Client: netip.AddrFrom4([4]byte{10, byte(r.IntN(256)), byte(r.IntN(256)), 1}), Application: "web", Operation: op}, false
		})
		check := func(kind topkeys.Kind, byRefused bool, name string, received, refusals float64) {
			t.Helper()
			rows := b.Top(kind, 3, byRefused)
			if len(rows) == 0 || rows[0].Name != name {
				t.Fatalf("%d/s: by %s: %+v; want %s first", rate, kind, rows, name)
			}
			got := rows[0]
			near := func(got, share float64) bool {
				return math.Abs(got-share*float64(rate)) <= 0.25*share*float64(rate)+0.01*float64(rate)
			}
			if !near(got.Received-got.Over/2, received) || !near(got.Refused, refusals) {
				t.Errorf("%d/s: by %s: %+v; want %.2f of them, and %.2f refused", rate, kind, got, received, refusals)
			}
		}
		check(topkeys.ByClient, false, "10.9.8.7", 0.3, 0)
		check(topkeys.ByClient, true, "2001:db8::1", 0.1, 0.1)
		check(topkeys.ByApplication, false, "web", 0.7, 0.1)
		check(topkeys.ByUser, false, "eve", 0.3, 0)
		check(topkeys.ByOperation, false, "find orders", 0.3, 0)
	}
}

// What was is forgotten, and who never asked is not told.
func TestItForgets(t *testing.T) {
	var b topkeys.Board
	if rows := b.Top(topkeys.ByUser, 5, false); len(rows) != 0 {
		t.Errorf("before anything: %v", rows)
	}
	play(&b, 10, 100, func(*rand.Rand) (topkeys.Asker, bool) { return topkeys.Asker{User: "old"}, true })
	later := time.Unix(1e9+10, 0)
	for s := range 600 {
		b.Turn(later.Add(time.Duration(s) * time.Second))
	}
	if rows := b.Top(topkeys.ByUser, 5, true); len(rows) != 0 {
		t.Errorf("ten minutes later: %+v", rows)
	}
	if rows := b.Top("nothing", 5, true); len(rows) != 0 {
		t.Errorf("of an unknown kind: %+v", rows)
	}
}

// A client chooses names; they take no more than a bounded room.
func TestNamesAreBounded(t *testing.T) {
	var b topkeys.Board
	long := strings.Repeat("x", 1<<20)
	play(&b, 3, 100, func(*rand.Rand) (topkeys.Asker, bool) {
		return topkeys.Asker{Application: long + "a", User: long}, false
	})
	rows := b.Top(topkeys.ByApplication, 5, false)
	if len(rows) != 1 || len(rows[0].Name) > 128 {
		t.Errorf("%d rows; want one, of a name that is cut short", len(rows))
	}
}

// Those who are known cost no memory, and with many requests hardly any time.
func TestNoAllocations(t *testing.T) {
	var b topkeys.Board
	a := topkeys.Asker{Client: netip.MustParseAddr("10.0.0.1"), Application: "app", User: "u", Operation: topkeys.Operation{Verb: "find", Object: "orders"}}
	b.Saw(&a, true)
	if n := testing.AllocsPerRun(1000, func() {
		if b.Due() {
			b.Saw(&a, true)
		}
	}); n != 0 {
		t.Errorf("%v allocations per request; want none", n)
	}
	var none *topkeys.Board
	if none.Due() {
		t.Error("a board that is not there is due")
	}
}

func BenchmarkBoard(b *testing.B) {
	var board topkeys.Board
	a := topkeys.Asker{Client: netip.MustParseAddr("10.0.0.1"), Application: "app", User: "u", Operation: topkeys.Operation{Verb: "find", Object: "orders"}}
	now := time.Now()
	board.Turn(now)
	for i := 0; b.Loop(); i++ {
		if board.Due() {
			board.Saw(&a, false)
		}
		if i%1_000_000 == 0 {
			now = now.Add(time.Second)
			board.Turn(now)
		}
	}
}
