package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/fleet"
	"github.com/admitd/admitd/limiter"
)

// What a group costs Redis: the processor time of one call and of one quota in it,
// how long half and nearly all of the calls hold Redis, and what gates that call at
// the pace that they choose take of one processor together. Every quota is asked for
// twice what there is, by every gate that has it. One round is a call of all gates.
func BenchmarkScript(b *testing.B) {
	for _, tc := range []struct{ gates, quotas, tenants int }{
		{8, 1, 0}, {8, 32, 0}, {100, 1, 0}, {100, 32, 0}, {1000, 1, 0}, {1000, 32, 0}, {100, 200, 10_000},
	} {
		name := fmt.Sprintf("gates=%d/quotas=%d", tc.gates, tc.quotas)
		if tc.tenants > 0 {
			name = fmt.Sprintf("gates=%d/quotas=%d-of-%d", tc.gates, tc.quotas, tc.tenants)
		}
		b.Run(name, func(b *testing.B) {
			r := startRedis(b)
			gates := make([]*fleet.Sim, tc.gates)
			for i := range gates {
				gates[i] = benchGate(b, r, i, tc.gates, tc.quotas, tc.tenants)
			}
			round := func() {
				at := now()
				for _, g := range gates {
					g.Due()
					g.Step(at, true, true)
				}
			}
			for range 4 { // every gate has a row in every quota, and a demand
				round()
			}
			r.do("CONFIG", "RESETSTAT")
			calls, before := countCalls(gates), r.cpu()
			rounds := 0
			for b.Loop() {
				round()
				rounds++
			}
			busy := r.cpu() - before
			calls = countCalls(gates) - calls
			asks := float64(rounds * tc.gates * tc.quotas)
			b.ReportMetric(busy.Seconds()*1e6/float64(calls), "cpu-µs/call")
			b.ReportMetric(busy.Seconds()*1e6/asks, "cpu-µs/quota")
			b.ReportMetric(r.latency("p50"), "p50-µs/call")
			b.ReportMetric(r.latency("p99"), "p99-µs/call")
			b.ReportMetric(gates[0].Pace().Seconds()*1000, "pace-ms")
			b.ReportMetric(busy.Seconds()/float64(rounds)/gates[0].Pace().Seconds(), "cores")
		})
	}
}

// benchGate returns a gate with so many quotas, all or some of so many tenants'.
func benchGate(b *testing.B, r *server, i, gates, quotas, tenants int) *fleet.Sim {
	b.Helper()
	names := make([]string, quotas)
	buckets := make([]*limiter.Bucket, quotas)
	for j := range buckets {
		names[j] = fmt.Sprintf("q%d", j)
		if tenants > 0 {
			names[j] = fmt.Sprintf("orders/~tenant%d", (i*7919+j*(tenants/quotas))%tenants)
		}
		buckets[j] = limiter.NewBucket(limiter.Rate{PerSecond: float64(20 * gates), BurstSeconds: 0.1, Sharers: gates}, now())
	}
	sim, err := fleet.NewSim(now(), fmt.Sprintf("gate%d", i), fleet.Settings{Gates: gates}, func(yield func(string, string, *limiter.Bucket) bool) {
		for j, bucket := range buckets {
			for range 100 {
				bucket.Miss(1)
			}
			if !yield(names[j], "q", bucket) {
				return
			}
		}
	}, &fleet.Redis{Addresses: []string{r.addr}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(sim.Close)
	return sim
}

func countCalls(gates []*fleet.Sim) (n int) {
	for _, g := range gates {
		n += g.Calls
	}
	return n
}

// cpu returns the processor time that the server has used.
func (s *server) cpu() time.Duration {
	s.tb.Helper()
	return time.Duration((s.info("cpu", "used_cpu_user_main_thread") + s.info("cpu", "used_cpu_sys_main_thread")) * 1e9)
}

// latency returns a percentile of the time in which the script held Redis, µs.
func (s *server) latency(percentile string) float64 {
	s.tb.Helper()
	text, _ := s.do("INFO", "latencystats").(string)
	var us float64
	if _, rest, ok := strings.Cut(text, "latency_percentiles_usec_evalsha:"); ok {
		if _, rest, ok = strings.Cut(rest, percentile+"="); ok {
			_, _ = fmt.Sscanf(rest, "%g", &us)
		}
	}
	return us
}

// info returns a number that the server tells of itself.
func (s *server) info(section, field string) (x float64) {
	s.tb.Helper()
	text, _ := s.do("INFO", section).(string)
	if _, rest, ok := strings.Cut(text, field+":"); ok {
		_, _ = fmt.Sscanf(rest, "%g", &x)
	}
	return x
}

// What 100,000 quotas that nobody asks for cost their gate: the time of one look, of
// which there are twenty a second, and of the calls that keep them known.
func BenchmarkIdleQuotas(b *testing.B) {
	r := startRedis(b)
	sharing := &limiter.Sharing{}
	buckets := make([]*limiter.Bucket, 100_000)
	names := make([]string, len(buckets))
	at := now()
	for i := range buckets {
		buckets[i] = limiter.NewBucket(limiter.Rate{PerSecond: 100, Sharers: 1, Sharing: sharing}, at)
		names[i] = fmt.Sprint("orders/~tenant", i)
	}
	sim, err := fleet.NewSim(at, "gate", fleet.Settings{}, func(yield func(string, string, *limiter.Bucket) bool) {
		for i, bucket := range buckets {
			if !yield(names[i], "orders/default", bucket) {
				return
			}
		}
	}, &fleet.Redis{Addresses: []string{r.addr}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(sim.Close)
	sim.Share(sharing)
	for active := 1; active > 0; active, _ = sim.Lists() {
		at += int64(50 * time.Millisecond)
		sim.Step(at, true, true)
	}
	for b.Loop() {
		at += int64(50 * time.Millisecond)
		sim.Step(at, true, true)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/50e6, "cores")
}
