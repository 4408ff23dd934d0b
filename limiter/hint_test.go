package limiter_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/admitd/admitd/limiter"
)

// hinted is a gate whose time stands still but for the test.
type hinted struct {
	clock stoppedClock
	gate  *limiter.Gate
}

func newHinted(p *limiter.Policy) *hinted {
	h := &hinted{}
	h.clock.now.Store(int64(time.Hour))
	h.gate = limiter.New("g", p, limiter.Options{Clock: &h.clock, Rand: rand.New(rand.NewPCG(3, 4)).Uint64})
	return h
}

// ask sends a request, ends it at once, and returns the hint when it is refused.
func (h *hinted) ask(req limiter.Request) (limiter.Hint, bool) {
	p, err := h.gate.TryAdmit(h.clock.Now(), req)
	p.End(limiter.Success)
	if rej, ok := errors.AsType[*limiter.Rejection](err); ok {
		return rej.Hint(req), true
	}
	return limiter.Hint{}, false
}

// storm refuses n requests of the key, at once.
func (h *hinted) storm(t *testing.T, n int, key string) {
	t.Helper()
	for refused := 0; refused < n; {
		if _, ok := h.ask(limiter.Request{Key: key}); ok {
			refused++
		}
	}
}

// Both hints grow with the overload, stay near each other, and differ between
// requests also at their bounds: clients that are told the same time come back
// together.
func TestHintIsComputedAndJittered(t *testing.T) {
	h := newHinted(&limiter.Policy{Rate: limiter.Rate{PerSecond: 100, BurstSeconds: 0.1}})
	bases, waits := map[time.Duration]bool{}, map[time.Duration]bool{}
	for range 3000 { // 1000/s against 100/s
		h.clock.now.Add(int64(time.Millisecond))
		hint, refused := h.ask(limiter.Request{})
		if !refused {
			continue
		}
		bases[hint.BaseBackoff], waits[hint.RetryAfter] = true, true
		if hint.BaseBackoff > 5*time.Second || hint.RetryAfter < hint.BaseBackoff/2-time.Millisecond ||
			hint.RetryAfter > max(2*hint.BaseBackoff, 20*time.Millisecond) {
			t.Fatalf("base %v beside a wait of %v", hint.BaseBackoff, hint.RetryAfter)
		}
	}
	if len(bases) < 2000 || len(waits) < 2000 {
		t.Errorf("%d different bases and %d different waits: clients would return together", len(bases), len(waits))
	}
}

// A token every 1000 seconds: the wait is at its bound, where every client was
// told 30 s to the millisecond.
func TestHintIsSpreadAtItsBound(t *testing.T) {
	h := newHinted(&limiter.Policy{Rate: limiter.Rate{PerSecond: 0.001}})
	h.ask(limiter.Request{})
	seen := map[time.Duration]bool{}
	for range 100 {
		hint, _ := h.ask(limiter.Request{})
		seen[hint.RetryAfter] = true
		if hint.RetryAfter < 15*time.Second || hint.RetryAfter > 30*time.Second {
			t.Fatalf("wait %v; want 15 to 30 s", hint.RetryAfter)
		}
	}
	if len(seen) < 90 {
		t.Errorf("%d different waits among 100", len(seen))
	}
}

// From 4 % excess on the base stood at its ceiling of 3 s, beside a wait of 21 ms.
func TestHintOfSlightExcess(t *testing.T) {
	h := newHinted(&limiter.Policy{Rate: limiter.Rate{PerSecond: 1000, BurstSeconds: 0.1}})
	random := rand.New(rand.NewPCG(5, 6))
	var bases []time.Duration
	for range 20_000 {
		h.clock.now.Add(int64(random.ExpFloat64() * float64(time.Second) / 1040))
		if hint, refused := h.ask(limiter.Request{}); refused {
			bases = append(bases, hint.BaseBackoff)
		}
	}
	slices.Sort(bases)
	if len(bases) < 300 {
		t.Fatalf("%d refused; want about 4 %%", len(bases))
	}
	if p90 := bases[len(bases)*9/10]; p90 > 200*time.Millisecond {
		t.Errorf("nine in ten bases are up to %v; want about the milliseconds that the excess needs", p90)
	}
}

// A base that does not fit into the deadline makes drivers give up at once.
func TestHintFitsTheDeadline(t *testing.T) {
	h := newHinted(&limiter.Policy{Rate: limiter.Rate{PerSecond: 20}})
	h.storm(t, 1000, "")
	h.clock.now.Add(int64(100 * time.Millisecond))
	for _, deadline := range []time.Duration{4 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second} {
		hint, refused := h.ask(limiter.Request{Deadline: deadline, Cost: 20})
		if !refused || hint.BaseBackoff > deadline/4 || hint.BaseBackoff < deadline/5 {
			t.Errorf("deadline %v: base %v; want about a quarter", deadline, hint.BaseBackoff)
		}
	}
}

// The hint was one for the whole ingress, so that one tenant's storm made the
// others sleep.
func TestHintIsThePartitionsOwn(t *testing.T) {
	for name, policy := range map[string]*limiter.Policy{
		"permits": {Default: limiter.PartitionPolicy{NewLimit: newFixed(1)}},
		"rates":   {Default: limiter.PartitionPolicy{Rate: limiter.Rate{PerSecond: 10, BurstSeconds: 0.1}}},
		"shared":  {Rate: limiter.Rate{PerSecond: 10, BurstSeconds: 0.1}},
	} {
		h := newHinted(policy)
		for _, key := range []string{"calm", "storm"} {
			if name != "permits" {
				continue
			}
			if _, err := h.gate.TryAdmit(h.clock.Now(), limiter.Request{Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		h.storm(t, 1000, "storm")
		if name == "rates" {
			h.ask(limiter.Request{Key: "calm"})
		}
		calm, refused := h.ask(limiter.Request{Key: "calm"})
		if !refused || calm.BaseBackoff > 250*time.Millisecond {
			t.Errorf("%s: refused %v, base %v after another tenant's storm", name, refused, calm.BaseBackoff)
		}
		h.clock.now.Add(int64(10 * time.Millisecond))
		if storm, _ := h.ask(limiter.Request{Key: "storm"}); storm.BaseBackoff < 4*time.Second {
			t.Errorf("%s: base %v in the storm; want about the ceiling", name, storm.BaseBackoff)
		}
	}
}

// Drivers slept before they tried the gate next door, which was idle.
func TestHintIsSmallBesideOtherGates(t *testing.T) {
	h := newHinted(&limiter.Policy{Rate: limiter.Rate{PerSecond: 10}, Gates: 2})
	h.storm(t, 1000, "")
	if hint, refused := h.ask(limiter.Request{}); !refused || hint.BaseBackoff > 100*time.Millisecond {
		t.Errorf("refused %v, base %v; want no more than drivers' own 100 ms", refused, hint.BaseBackoff)
	}
}

// An overload is forgotten once everybody may have come back.
func TestHintForgets(t *testing.T) {
	h := newHinted(&limiter.Policy{Rate: limiter.Rate{PerSecond: 100, BurstSeconds: 0.1}})
	for range 100 {
		h.clock.now.Add(int64(10 * time.Millisecond))
		h.storm(t, 10, "")
	}
	if hint, _ := h.ask(limiter.Request{}); hint.BaseBackoff < 500*time.Millisecond {
		t.Fatalf("base %v in the storm", hint.BaseBackoff)
	}
	h.clock.now.Add(int64(10 * time.Second))
	for {
		if hint, refused := h.ask(limiter.Request{}); refused {
			if hint.BaseBackoff > 20*time.Millisecond {
				t.Errorf("base %v of the first refusal ten seconds later", hint.BaseBackoff)
			}
			return
		}
	}
}

// A monotonic clock may begin at zero. In its first second the hint was zero,
// and real drivers used up their attempts within milliseconds.
func TestHintInTheClocksFirstSecond(t *testing.T) {
	h := &hinted{}
	h.gate = limiter.New("g", &limiter.Policy{Rate: limiter.Rate{PerSecond: 10, BurstSeconds: 0.1}}, limiter.Options{Clock: &h.clock})
	h.storm(t, 3, "")
	if hint, _ := h.ask(limiter.Request{}); hint.BaseBackoff < 100*time.Millisecond {
		t.Errorf("base %v after three refusals at 10/s", hint.BaseBackoff)
	}
}
