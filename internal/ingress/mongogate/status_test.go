package mongogate_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// Connections are counted under the server's names, and an unlimited bucket
// is left out: JSON has no infinity.
func TestEstablishment(t *testing.T) {
	refused := make([]uint64, len(ingress.Refusals()))
	refused[ingress.OverRate], refused[ingress.OverOpen], refused[ingress.Abandoned] = 3, 2, 1
	got := mongogate.Establishment(ingress.Status{Accepted: 10, Queued: 4, Refused: refused, Tokens: math.Inf(1)})
	want := mongogate.EstablishmentStatus{
		AttemptedAdmissions: 16, SuccessfulAdmissions: 10, RejectedAdmissions: 5, InterruptedInQueue: 1, CurrentQueueDepth: 4,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Establishment (-want +got):\n%s", d)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}

// The status says how many tokens are left, under the server's name.
func TestStatusTokens(t *testing.T) {
	g := limiter.New("test", &limiter.Policy{Rate: limiter.Rate{PerSecond: 1, BurstSeconds: 5}}, limiter.Options{})
	s, err := mongogate.New(g, mongogate.Options{Backends: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(s.Status())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `"totalAvailableTokens":5`) {
		t.Errorf("status %s; want 5 tokens", b)
	}
}

// Once a second the status is taken, also when nobody looks. It worded every
// partition to find the length of the queue, which with 100,000 of them was a third of
// the processor time of a busy gate.
func TestStatusIgnoresPartitions(t *testing.T) {
	allocs := func(partitions int) float64 {
		g := limiter.New("test", &limiter.Policy{MaxPartitions: partitions, Rate: limiter.Rate{PerSecond: 1e6}}, limiter.Options{})
		for i := range partitions {
			p, err := g.TryAdmit(g.Now(), limiter.Request{Key: "tenant-" + strconv.Itoa(i)})
			if err != nil {
				t.Fatal(err)
			}
			p.End(limiter.Success)
		}
		s, err := mongogate.New(g, mongogate.Options{Backends: []string{"127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(10, func() { s.Status() })
	}
	if one, many := allocs(1), allocs(1000); many > one {
		t.Errorf("%.0f allocations with 1,000 partitions, %.0f with one", many, one)
	}
}
