package pool_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/admitd/admitd/internal/fleet/pool"
)

// A limit is split into whole permits, at least one each, and not one is lost or
// made; who wants more never gets less.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Float64Range(0, 500), 1, 20).Draw(t, "want")
		limit, turn := rapid.IntRange(1, 1000).Draw(t, "limit"), rapid.IntRange(0, 100).Draw(t, "turn")
		shares := pool.Split(limit, want, turn)
		sum := 0
		for i, s := range shares {
			if s < 1 {
				t.Fatalf("Split(%d, %v) = %v: gate %d has none", limit, want, shares, i)
			}
			sum += s
			for j := range shares {
				if want[i] > want[j]+1 && shares[i] < shares[j]-1 {
					t.Fatalf("Split(%d, %v) = %v: gate %d wants more than %d and has less", limit, want, shares, i, j)
				}
			}
		}
		if sum != max(limit, len(want)) {
			t.Fatalf("Split(%d, %v) = %v, %d in all", limit, want, shares, sum)
		}
	})
}

// What is written on the board reads back.
func TestRowReadsBack(t *testing.T) {
	r := pool.Row{ID: "a", Share: 3, Want: 4.5, Held: 2, Samples: pool.Samples{
		Counts: map[int]uint64{0: 1, 17: 5, 100: 1 << 40}, Latency: 12345, Held: 9, Dropped: 2, Offered: 30, Refused: 4,
	}}
	got, ok := pool.ParseRow("a", r.String()+" and what a newer gate adds")
	if diff := cmp.Diff(r, got); !ok || diff != "" {
		t.Errorf("ParseRow: ok %v, %s", ok, diff)
	}
	for _, bad := range []string{"", "x", "1 2 3", "1 NaN 3 4 5 6 7 8 1:2,", "-1 2 3 4 5 6 7 8 "} {
		if _, ok := pool.ParseRow("a", bad); ok {
			t.Errorf("ParseRow took %q", bad)
		}
	}
}

// rule is an algorithm that a test sets, and that says what it was fed.
type rule struct {
	limit          int
	n, dropped     int
	latency        time.Duration
	inFlight       int
	last           int64
	backwards      int
	initial, gates int
}

func (r *rule) Current() int { return r.limit }

func (r *rule) Observe(now int64, latency time.Duration, inFlight int, dropped bool) {
	if now < r.last {
		r.backwards++
	}
	r.last = now
	if dropped {
		r.dropped++
		return
	}
	r.n++
	r.latency += latency
	r.inFlight = inFlight
}

// gate is a gate of a test: so many requests at work, all the time.
type gate struct {
	*pool.Limit

	id    string
	want  float64
	dead  bool
	mute  bool // neither tells nor hears
	made  []*rule
	asked uint64
}

// group is gates, a board, and a time.
type group struct {
	now   int64
	board pool.Memory
	gates []*gate
	limit int
}

func (g *group) join(want float64) *gate { return g.joinWith(want, false) }

// joinWith adds a gate whose limit may be a chosen one.
func (g *group) joinWith(want float64, exact bool) *gate {
	m := &gate{id: fmt.Sprintf("gate%d", len(g.gates)), want: want}
	m.Limit = pool.New(pool.Options{Exact: exact, Make: func(initial, gates, _ int) pool.Algorithm {
		r := &rule{limit: g.limit, initial: initial, gates: gates}
		switch {
		case gates > 1 && exact:
			r.limit = (g.limit + gates - 1) / gates // as a fixed limit is divided
		case gates > 1:
			r.limit = max(initial/gates, 1)
		}
		m.made = append(m.made, r)
		return r
	}})
	m.Watch(func() (uint64, uint64) { return m.asked, 0 })
	g.gates = append(g.gates, m)
	return m
}

const interval = 200 * time.Millisecond

// run plays the group: each gate serves requests of 10 ms, as many at once as it
// may and wants, and exchanges every interval.
func (g *group) run(d time.Duration, silent bool) {
	for end := g.now + int64(d); g.now < end; g.now += int64(10 * time.Millisecond) {
		for i, m := range g.gates {
			if m.dead {
				continue
			}
			m.asked += uint64(m.want)
			work := min(m.Current(), int(m.want))
			for range work {
				m.Observe(g.now, 10*time.Millisecond, work, false)
			}
			if phase := int64(i) * int64(20*time.Millisecond); (g.now+phase)%int64(interval) == 0 && !silent && !m.mute {
				b := g.board.Exchange(g.now, 3*int64(interval), m.Row(g.now, m.id), nil)
				if v, news := m.Hear(g.now, g.now, m.id, &b); news {
					b = g.board.Exchange(g.now, 3*int64(interval), m.Row(g.now, m.id), &v)
					m.HearAgain(m.id, &b)
				}
			}
			m.Tick(g.now)
		}
	}
}

// sum adds the shares up of the gates that live.
func (g *group) sum() (sum int, each []int) {
	for _, m := range g.gates {
		if !m.dead {
			sum += m.Current()
			each = append(each, m.Current())
		}
	}
	return sum, each
}

// One gate leads, and feeds what all have seen; the limit is split by what each
// wants; a gate that dies leaves its part to the others within a second, and one
// that joins has its part within one.
func TestGatesShareALimit(t *testing.T) {
	g := &group{now: int64(time.Hour), limit: 80}
	for range 4 {
		g.join(40)
	}
	g.gates[0].want = 10
	if got := g.gates[0].Why(); got != "" {
		t.Errorf("Why() = %q before the group was heard", got)
	}
	g.run(3*time.Second, false)
	if got := g.gates[0].Why(); got != pool.WhyFleet { // it was said to be the configuration
		t.Errorf("Why() = %q; want %q", got, pool.WhyFleet)
	}
	all := 80 + pool.Spare(4)
	if sum, each := g.sum(); sum > all || sum < 78 || each[0] > 14 || each[0] < 10 {
		t.Errorf("shares are %v, %d in all; want some ten for the first and %d in all", each, sum, all)
	}
	var fed *rule
	for _, m := range g.gates {
		for _, r := range m.made {
			if r.n > 0 {
				if fed != nil {
					t.Error("two gates feed their algorithm")
				}
				fed = r
			}
		}
	}
	switch {
	case fed == nil:
		t.Fatal("nobody feeds an algorithm")
	case fed.backwards > 0:
		t.Errorf("time goes backwards %d times", fed.backwards)
	case math.Abs(float64(fed.latency)/float64(fed.n)/1e7-1) > 0.01:
		t.Errorf("the mean latency that is fed is %v; want 10ms", fed.latency/time.Duration(fed.n))
	case fed.inFlight < 76 || fed.inFlight > all:
		t.Errorf("%d are said to be in flight; want about 80", fed.inFlight)
	}

	g.gates[3].dead = true
	g.run(time.Second, false)
	if sum, each := g.sum(); sum < 78 || sum > 80+pool.Spare(3) {
		t.Errorf("a second after a gate died the shares are %v, %d in all; want 82", each, sum)
	}
	late := g.join(40)
	if late.Current() != 1 {
		t.Errorf("a gate begins with %d permits; want 1", late.Current())
	}
	g.run(time.Second, false)
	if sum, each := g.sum(); sum > all || sum < 78 || late.Current() < 15 {
		t.Errorf("a second after a gate joined the shares are %v, %d in all; want a part for the last and 82", each, sum)
	}
}

// The sum never rises above the limit, half a permit of each gate, and the one
// permit that everybody has, whatever the demand does.
func TestSharesStayWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &group{now: int64(time.Hour), limit: rapid.IntRange(5, 100).Draw(t, "limit")}
		for range rapid.IntRange(1, 6).Draw(t, "gates") {
			g.join(10)
		}
		for range rapid.IntRange(1, 10).Draw(t, "turns") {
			i := rapid.IntRange(0, len(g.gates)-1).Draw(t, "gate")
			g.gates[i].want = rapid.Float64Range(0, 100).Draw(t, "want")
			g.run(time.Duration(rapid.IntRange(1, 60).Draw(t, "ticks"))*10*time.Millisecond, false)
			n := len(g.gates)
			if sum, each := g.sum(); sum > max(g.limit+pool.Spare(n), n)+n {
				t.Fatalf("shares are %v, %d of %d", each, sum, g.limit)
			}
		}
	})
}

// Without the group a gate keeps its share for three intervals and goes on alone
// as one of so many, from what it had; and comes back to the group.
func TestAloneFromItsShare(t *testing.T) {
	g := &group{now: int64(time.Hour), limit: 40}
	for range 4 {
		g.join(40)
	}
	g.run(3*time.Second, false)
	_, before := g.sum()
	g.run(2*interval, true)
	if _, each := g.sum(); !cmp.Equal(each, before) {
		t.Errorf("shares are %v two intervals after the group fell silent; want %v", each, before)
	}
	g.run(3*interval, true)
	for _, m := range g.gates {
		r := m.made[len(m.made)-1]
		if r.gates != 4 || r.initial != 4*before[0] && r.initial != 4*(before[0]+1) && r.initial != 4*(before[0]-1) {
			t.Errorf("%s goes on alone as one of %d from %d; want 4 from about %d", m.id, r.gates, r.initial, 4*before[0])
		}
		if m.State()["fleet_alone"] != 1 {
			t.Errorf("%s does not say that it is alone", m.id)
		}
	}
	g.run(time.Second, false)
	if sum, each := g.sum(); sum > 40+pool.Spare(4) || sum < 38 || g.gates[0].State()["fleet_alone"] != 0 {
		t.Errorf("shares are %v, %d in all, a second after the group is back; want 42", each, sum)
	}
}

// A leader that was away does not overwrite what its successor found.
func TestFence(t *testing.T) {
	var m pool.Memory
	life := int64(600)
	a := m.Exchange(0, life, pool.Row{ID: "a"}, nil)
	b := m.Exchange(700, life, pool.Row{ID: "b"}, nil)
	if !a.Leads || !b.Leads || b.Fence <= a.Fence {
		t.Fatalf("a led with %d, b leads %v with %d", a.Fence, b.Leads, b.Fence)
	}
	m.Exchange(710, life, pool.Row{ID: "b"}, &pool.Verdict{Fence: b.Fence, Limit: 7})
	if got := m.Exchange(720, life, pool.Row{ID: "a"}, &pool.Verdict{Fence: a.Fence, Limit: 99}); got.Verdict.Limit != 7 || got.Leads {
		t.Errorf("after the old leader wrote the limit is %d; want 7", got.Verdict.Limit)
	}
}

// The parts of a limit that somebody chose are never more than it, together, with
// the group or without, and neither are they when only one gate hears nothing.
func TestChosenLimitIsNotExceeded(t *testing.T) {
	for n := 1; n <= 8; n++ {
		for _, limit := range []int{10, 30, 31} {
			g := &group{now: int64(time.Hour), limit: limit}
			for range n {
				g.joinWith(40, true)
			}
			g.run(3*time.Second, false)
			if sum, each := g.sum(); sum != limit {
				t.Errorf("%d gates have %v, %d in all; want %d", n, each, sum, limit)
			}
			for _, m := range g.gates {
				m.Set(interval, n, n)
			}
			if n > 1 {
				g.gates[0].mute = true
				g.run(2*time.Second, false)
				if sum, each := g.sum(); sum > limit || sum < limit-2*n {
					t.Errorf("when one of %d gates hears nothing they have %v, %d in all; want about %d and not more", n, each, sum, limit)
				}
			}
			g.run(2*time.Second, true)
			if sum, each := g.sum(); sum > limit || sum < limit-n {
				t.Errorf("without the group %d gates have %v, %d in all; want about %d and not more", n, each, sum, limit)
			}
		}
	}
}

// A leader that goes on alone, and then hears that another one leads, leads no more.
func TestLeaderThatWasAloneLeadsNoMore(t *testing.T) {
	g := &group{now: int64(time.Hour), limit: 40}
	a := g.join(40)
	g.run(time.Second, false)
	g.join(40)
	a.mute = true
	g.run(2*time.Second, false)
	if s := a.State(); s["fleet_leads"] != 0 || s["fleet_alone"] != 1 {
		t.Errorf("alone it says %v; want that it does not lead", s)
	}
	fed := a.made[0].n
	a.mute = false
	g.run(2*time.Second, false)
	if s := a.State(); s["fleet_leads"] != 0 || s["fleet_alone"] != 0 || a.made[0].n != fed {
		t.Errorf("after another one led it says %v, and fed %d samples more; want none", s, a.made[0].n-fed)
	}
}
