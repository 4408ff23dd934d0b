package lab_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// pooled is a scenario of nothing but a pool of callers.
const pooled = `
name: pooled
about: A pool.
for: 100s
timeout: 4s
backend: { workers: 1, service: { kind: constant, mean: 100ms } }
windows: [{ name: all, from: 0s, to: 100s }]
`

// turnstile is a door that does with each request what a test says, and counts
// those that are inside.
type gate struct {
	w            *lab.World
	inside, most int
	asked        []int64 // virtual ns of each request
	keys         map[string]int
	refuses      bool
}

func (d *gate) Enter(r lab.Request, e lab.Entrant) func() {
	d.asked = append(d.asked, d.w.Now())
	d.keys[r.Key]++
	if d.refuses {
		e.Refused(func() labels.Document { return labels.Document{} })
		return nil
	}
	d.inside++
	d.most = max(d.most, d.inside)
	e.Admitted(lab.EndFunc(func(limiter.Outcome) { d.inside-- }))
	return nil
}

func (*gate) Limit() int { return 0 }

// playPool plays a scenario through turnstiles, and returns them.
func playPool(t *testing.T, text string, refuses bool) (doors []*gate) {
	t.Helper()
	s := onlyVariant(t, text)
	c := lab.Contender{Name: "turnstile", New: func(w *lab.World) lab.Door {
		doors = append(doors, &gate{w: w, keys: map[string]int{}, refuses: refuses})
		return doors[len(doors)-1]
	}}
	r, err := lab.Play(s, c, 1, lab.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, d := range doors {
		asked += len(d.asked)
	}
	if w := r.Windows[0]; w.Offered != asked || w.Answered+w.Refused+w.Failed != asked {
		t.Errorf("%d requests are counted, %d of them ended; %d were made", w.Offered, w.Answered+w.Refused+w.Failed, asked)
	}
	return doors
}

// Callers of a pool each have one request on its way at most, and ask again once it
// has ended and they have thought: what they ask for is their number over the time
// that they think and wait, so that the backend sets the pace where it is slow.
func TestPool(t *testing.T) {
	for name, tc := range map[string]struct {
		callers     string
		refuses     bool
		least, most int // requests in 100 s
		inside      int // at most at a time
	}{
		"one, one second to think":    {callers: "{ count: 1, think: 1s }", least: 75, most: 107, inside: 1},        // 100 s / 1.1 s = 91
		"one, who hardly thinks":      {callers: "{ count: 1, think: 1ms }", least: 980, most: 1000, inside: 1},     // the worker's 10 a second
		"ten, and the worker is busy": {callers: "{ count: 10, think: 100ms }", least: 990, most: 1010, inside: 10}, // the same: nobody asks for more
		"refused, and asks again":     {callers: "{ count: 2, think: 100ms }", refuses: true, least: 1850, most: 2150, inside: 0},
	} {
		d := playPool(t, pooled+"callers: "+tc.callers+"\n", tc.refuses)[0]
		if n := len(d.asked); n < tc.least || n > tc.most {
			t.Errorf("%s: %d requests; want %d to %d", name, n, tc.least, tc.most)
		}
		if d.most != tc.inside {
			t.Errorf("%s: %d were inside at a time; want %d", name, d.most, tc.inside)
		}
		if last := d.asked[len(d.asked)-1]; last >= int64(100*time.Second) || last < int64(90*time.Second) {
			t.Errorf("%s: the last request came at %v; want it before the end of 100 s, and not long before", name, time.Duration(last))
		}
	}
}

// Who loses patience asks again after a thought, while the backend still works on
// what was asked first. So a pool can overload a backend, though it waits.
func TestPoolLosesPatience(t *testing.T) {
	text := strings.Replace(pooled, "timeout: 4s", "timeout: 50ms", 1) + "callers: { count: 3, think: 50ms }\n"
	r, err := lab.Play(onlyVariant(t, text), lab.None(), 1, lab.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Three callers ask every 100 ms; one worker answers none of them in time.
	if w := r.Windows[0]; w.Answered != 0 || w.Failed < 2800 || w.Failed > 3200 || w.Wasted < 990 {
		t.Errorf("%d answered, %d failed, %d served for nobody; want 0, about 3000, and what the worker can do", w.Answered, w.Failed, w.Wasted)
	}
}

// The callers of a pool are spread evenly over tenants, and over gates by chance.
func TestPoolIsSpread(t *testing.T) {
	doors := playPool(t, pooled+"callers: { count: 8, think: 100ms }\ntenants: { count: 4 }\ngates: 2\n", true)
	keys := map[string]int{}
	for i, d := range doors {
		if n := len(d.asked); n < 3600 || n > 4400 {
			t.Errorf("%d requests of 8000 came to gate %d; want half", n, i)
		}
		for k, n := range d.keys {
			keys[k] += n
		}
	}
	for i := range 4 {
		if n := keys[fmt.Sprintf("tenant-%d", i)]; n < 1800 || n > 2200 {
			t.Errorf("%d requests of 8000 are of tenant %d; want a quarter", n, i)
		}
	}
}

// Callers that stay each keep to one gate: the first of two has two of three.
func TestPoolStays(t *testing.T) {
	doors := playPool(t, pooled+"callers: { count: 3, think: 100ms, stay: true }\ngates: 2\n", true)
	if n, m := len(doors[0].asked), len(doors[1].asked); n < 1850 || n > 2150 || m < 900 || m > 1100 {
		t.Errorf("%d and %d requests came to the gates; want two thirds and one third of 3000", n, m)
	}
}

// Eight gates that know of others, and not how many, begin together before callers
// that wait. None of them has ever seen the backend without a queue, and each once
// took that of the others for the backend: they answered everything, after ten times
// the service, or some of them answered everything and others next to nothing.
func TestGatesWithCallersThatWait(t *testing.T) {
	if testing.Short() {
		t.Skip("plays a minute of 240 callers")
	}
	s := onlyVariant(t, `
name: crowd
about: Eight gates and callers that wait.
for: 60s
backend: { workers: 16, service: { mean: 20ms } }
gates: 8
toldOthers: true
callers: { count: 240, think: 100ms, stay: true }
windows: [{ name: settled, from: 20s, to: 60s }]
`)
	list := lab.Contenders(s)
	r, err := lab.Play(s, list[len(list)-1], 1, lab.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	goodput, _ := r.Value("goodput", "settled")
	least, _ := r.Value("leastGate", "settled")
	if goodput < 0.9 || least < 0.15 {
		t.Errorf("goodput is %.3f of the capacity, the gate with fewest answers has %.2f of the mean; want 0.9 and 0.15", goodput, least)
	}
	if w := r.Windows[0]; w.P50 > 0.08 {
		t.Errorf("half of the answers took more than %v s; want four services at most", w.P50)
	}
}

// A pool beside a load changes nothing of when the load comes, whatever becomes of
// either, so that contenders go on meeting the same arrivals.
func TestPoolLeavesTheLoadAlone(t *testing.T) {
	load := func(callers string, refuses bool) []int64 {
		const text = pooled + "load: [{ at: 0s, load: 0.5 }]\ntenants: { count: 1 }\nbursts: [{ at: 3s, requests: 4 }]\n"
		return playPool(t, text+callers, refuses)[0].asked
	}
	alone := load("", false)
	for _, refuses := range []bool{false, true} {
		with := map[int64]int{}
		for _, at := range load("callers: { count: 2, think: 500ms }\n", refuses) {
			with[at]++
		}
		if len(with) <= len(alone) {
			t.Fatal("the pool asked for nothing")
		}
		for _, at := range alone {
			if with[at]--; with[at] < 0 {
				t.Fatalf("nothing of the load comes at %v any more", time.Duration(at))
			}
		}
	}
}

// What a pool is refused is a false refusal where the backend could serve all that
// its callers would ask for if each were served at once: slower health makes less.
func TestPoolIsRefusedFalsely(t *testing.T) {
	for more, want := range map[string]bool{
		"callers: { count: 4, think: 500ms }\n":                                     true,  // 4 / 0.6 s of 10 a second
		"callers: { count: 7, think: 500ms }\n":                                     false, // 11.7
		"callers: { count: 4, think: 500ms }\nhealth: [{ at: 0s, slow: 2 }]\n":      false, // 5.7 of 5
		"callers: { count: 7, think: 500ms }\nhealth: [{ at: 0s, delay: 200ms }]\n": true,  // 8.8 of 10
		"callers: { count: 4, think: 500ms }\nload: [{ at: 0s, load: 0.5 }]\n":      false, // 6.7 and 5 of 10
		"callers: { count: 4, think: 500ms }\nload: [{ at: 0s, load: 0.3 }]\n":      true,  // 6.7 and 3
	} {
		s := onlyVariant(t, pooled+more)
		r, err := lab.Play(s, lab.Fixed(s, "fixed", 1), 1, lab.PlayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w := r.Windows[0]
		wanted := 0
		if want {
			wanted = w.Refused
		}
		if w.Refused == 0 || w.FalseRefused != wanted {
			t.Errorf("%q: %d of %d refusals are false ones; want %d", more, w.FalseRefused, w.Refused, wanted)
		}
	}
}

// The same seed gives the same pool, another one another.
func TestPoolIsReproducible(t *testing.T) {
	times := func(seed uint64) []int64 {
		s := onlyVariant(t, pooled+"callers: { count: 3, think: 200ms }\n")
		var d *gate
		c := lab.Contender{Name: "turnstile", New: func(w *lab.World) lab.Door {
			d = &gate{w: w, keys: map[string]int{}}
			return d
		}}
		if _, err := lab.Play(s, c, seed, lab.PlayOptions{}); err != nil {
			t.Fatal(err)
		}
		return d.asked
	}
	first := times(1)
	if diff := cmp.Diff(first, times(1)); diff != "" {
		t.Errorf("two runs of a seed (-first +second):\n%s", diff)
	}
	if cmp.Equal(first, times(2)) {
		t.Error("another seed asks at the same moments")
	}
}

// A live run schedules what it sends beforehand, which callers that wait cannot be.
func TestPoolIsNotPlayedLive(t *testing.T) {
	l := lab.Live{Scenario: onlyVariant(t, pooled+"callers: { count: 3, think: 200ms }\n"), Capacity: 10}
	if _, err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "callers that wait") {
		t.Errorf("Run: %v; want it refused", err)
	}
}

// A pool that nobody counts is no pool, and costs the ceilings of files that name
// none nothing.
func TestNoPool(t *testing.T) {
	plain, none := onlyVariant(t, smallest), onlyVariant(t, smallest+"callers: { count: 0 }\n")
	if plain.Identity() != none.Identity() {
		t.Error("a pool of nobody changes what a scenario is")
	}
	if one := onlyVariant(t, smallest+"callers: { count: 1, think: 1s }\n"); one.Identity() == plain.Identity() {
		t.Error("a pool does not change what a scenario is")
	}
	if _, err := scenario.Parse([]byte(pooled)); err == nil {
		t.Error("a scenario that neither has a load nor a pool was taken")
	}
}
