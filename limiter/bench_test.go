package limiter_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// benchGate has 1,000 partitions and buckets that never run dry.
func benchGate(limit int) (*limiter.Gate, []string) {
	keys := make([]string, 1000)
	policy := &limiter.Policy{
		Rate:    limiter.Rate{PerSecond: 1e9},
		Default: limiter.PartitionPolicy{NewLimit: newFixed(limit)},
	}
	g := limiter.New("bench", policy, limiter.Options{})
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant-%04d", i)
		p, _ := g.Admit(context.Background(), limiter.Request{Key: keys[i]})
		p.End(limiter.Success)
	}
	return g, keys
}

// BenchmarkAdmitEnd is the whole path of an admitted request.
func BenchmarkAdmitEnd(b *testing.B) {
	g, keys := benchGate(1000)
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			p, err := g.Admit(ctx, limiter.Request{Key: keys[i%len(keys)]})
			if err != nil {
				b.Fatal(err)
			}
			p.End(limiter.Success)
		}
	})
}

// BenchmarkAdmitEndClassed is BenchmarkAdmitEnd where requests have classes, half of
// them the least one, and nobody is short of anything.
func BenchmarkAdmitEndClassed(b *testing.B) {
	g, keys := benchGate(1000)
	g.Apply(&limiter.Policy{
		Rate: limiter.Rate{PerSecond: 1e9}, Classes: classes(),
		Default: limiter.PartitionPolicy{NewLimit: newFixed(1000)},
	})
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			p, err := g.Admit(ctx, limiter.Request{Key: keys[i%len(keys)], Class: labels.Critical + 2*labels.Class(i&1)})
			if err != nil {
				b.Fatal(err)
			}
			p.End(limiter.Success)
		}
	})
}

// BenchmarkShed is the path of a request above the line.
func BenchmarkShed(b *testing.B) {
	const ms = time.Millisecond
	y := newSimGate(classed(20), 1)
	y.play(3*time.Second, source{name: "low", req: limiter.Request{Class: labels.Sheddable}, rate: 20_000, hold: 10 * ms},
		source{name: "critical", req: limiter.Request{}, rate: 1000, hold: 10 * ms})
	b.ReportAllocs()
	for b.Loop() {
		y.gate.Offer(y.clock.Now(), limiter.Request{Class: labels.Sheddable, MaxWait: limiter.NoWait})
	}
}

// BenchmarkRefuse is the path of a request beyond its partition's limit.
func BenchmarkRefuse(b *testing.B) {
	g, keys := benchGate(1)
	ctx := context.Background()
	for _, k := range keys {
		g.Admit(ctx, limiter.Request{Key: k})
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := g.Admit(ctx, limiter.Request{Key: keys[i%len(keys)]}); err == nil {
				b.Fatal("admitted")
			}
		}
	})
}

// BenchmarkRefuseByRate is the path of a request that finds no token.
func BenchmarkRefuseByRate(b *testing.B) {
	g := limiter.New("bench", &limiter.Policy{Rate: limiter.Rate{PerSecond: 0.001}}, limiter.Options{})
	ctx := context.Background()
	g.Admit(ctx, limiter.Request{})
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g.Admit(ctx, limiter.Request{})
		}
	})
}

// BenchmarkGiveUp is to join a queue at its end and to leave it again, with many
// others in it: it takes the same time however many they are.
func BenchmarkGiveUp(b *testing.B) {
	for _, waiting := range []int{10, 40_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			g := limiter.New("bench", queueing(0, 1, 100_000, time.Hour), limiter.Options{})
			g.Offer(0, limiter.Request{})
			for range waiting {
				g.Offer(0, limiter.Request{})
			}
			b.ReportAllocs()
			for b.Loop() {
				_, ticket, _ := g.Offer(0, limiter.Request{})
				ticket.Abandon()
			}
		})
	}
}

// BenchmarkXTimeRate is the yardstick: the Go project's own token bucket alone.
func BenchmarkXTimeRate(b *testing.B) {
	l := rate.NewLimiter(1e9, 1e9)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Allow()
		}
	})
}

// BenchmarkPage is a status of 10,000 partitions of which 20 are listed: what is
// taken once a second.
func BenchmarkPage(b *testing.B) {
	const partitions = 10_000
	g := limiter.New("bench", &limiter.Policy{MaxPartitions: partitions}, limiter.Options{})
	for i := range partitions {
		p, err := g.TryAdmit(g.Now(), limiter.Request{Key: "tenant-" + strconv.Itoa(i)})
		if err != nil {
			b.Fatal(err)
		}
		p.End(limiter.Success)
	}
	b.ReportAllocs()
	for b.Loop() {
		g.Page(limiter.StatusOptions{Partitions: 20})
	}
}
