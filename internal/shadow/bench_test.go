package shadow_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/shadow"
	"github.com/admitd/admitd/limiter"
)

// staged returns a gate with n candidates beside it; 0 = without a stage.
func staged(tb testing.TB, n int) (*limiter.Gate, *shadow.Stage) {
	tb.Helper()
	p := fixed(1000)()
	var stage *shadow.Stage
	if n > 0 {
		stage = shadow.New(shadow.Options{})
		var list []shadow.Candidate
		for i := range n {
			list = append(list, shadow.Candidate{Name: fmt.Sprint(i), Policy: fixed(10 + i)()})
		}
		stage.Apply(shadow.Options{}, list)
		p.Witness = stage
	}
	return limiter.New("bench", p, limiter.Options{}), stage
}

// BenchmarkDecision is what a request pays for a stage beside its gate: to be
// admitted, and to end. What waits is played between batches, out of the measured
// time, so that the ring has room.
func BenchmarkDecision(b *testing.B) {
	const batch = 1000
	for _, n := range []int{0, 1, 4} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g, stage := staged(b, n)
			ctx := context.Background()
			var took time.Duration
			batches := 0
			for ; b.Loop(); batches++ {
				start := time.Now()
				for range batch {
					p, err := g.Admit(ctx, limiter.Request{Key: "a"})
					if err != nil {
						b.Fatal(err)
					}
					p.End(limiter.Success)
				}
				took += time.Since(start)
				if stage != nil {
					stage.Settle()
				}
			}
			b.ReportMetric(float64(took)/float64(batches*batch), "ns/request")
		})
	}
}

// BenchmarkSettle is what the stage's own goroutine takes for one request.
func BenchmarkSettle(b *testing.B) {
	for _, n := range []int{1, 4} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, stage := staged(b, n)
			now := int64(0)
			for b.Loop() {
				now += int64(time.Millisecond)
				stage.Decided(now, limiter.Request{Key: "a"}, limiter.Admitted)
				stage.Ended(now, now+int64(10*time.Millisecond), 10*time.Millisecond, limiter.Success)
				stage.Settle()
			}
		})
	}
}

// A stage allocates nothing on the way of a request.
func TestDecisionAllocatesNothing(t *testing.T) {
	g, stage := staged(t, 4)
	ctx := context.Background()
	allocs := testing.AllocsPerRun(1000, func() {
		p, err := g.Admit(ctx, limiter.Request{Key: "a"})
		if err != nil {
			t.Fatal(err)
		}
		p.End(limiter.Success)
	})
	if allocs > 0 {
		t.Errorf("%v allocations per request beside a stage; want none", allocs)
	}
	stage.Settle()
}

// Many goroutines tell a stage that is read meanwhile; what does not fit is
// counted, and whatever is lost the count of those in flight comes right.
func TestManyTellAStage(t *testing.T) {
	var g *limiter.Gate
	stage := shadow.New(shadow.Options{})
	o := shadow.Options{InFlight: func() int { held, _ := g.Load(); return int(held) }}
	p := fixed(50)()
	p.Witness = stage
	g = limiter.New("many", p, limiter.Options{})
	stage.Apply(o, []shadow.Candidate{{Name: "a", Policy: fixed(5)()}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 5000 {
				if p, err := g.TryAdmit(g.Now(), limiter.Request{Key: fmt.Sprint(i)}); err == nil {
					p.End(limiter.Success)
				}
				if j%100 == 0 {
					stage.Reports("many")
				}
			}
		})
	}
	wg.Wait()
	stage.Settle()
	r := stage.Reports("many")[0]
	if r.Offered == 0 || r.Offered+r.Lost/2 > 8*5000 || r.Warming {
		t.Errorf("after 40000 requests the report is %+v", r)
	}
}
