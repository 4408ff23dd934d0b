package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/fleet"
	"github.com/admitd/admitd/limiter"
)

// What a call costs Redis, for quotas that eight gates use: the script's own
// time, as Redis measures it. Redis serves nobody else meanwhile.
func BenchmarkScript(b *testing.B) {
	for _, quotas := range []int{1, 32, 200} {
		b.Run(fmt.Sprintf("quotas=%d", quotas), func(b *testing.B) {
			r := startRedis(b)
			gates := make([]*fleet.Sim, 8)
			for i := range gates {
				buckets := make([]*limiter.Bucket, quotas)
				for j := range buckets {
					buckets[j] = limiter.NewBucket(limiter.Rate{PerSecond: 1000, Sharers: 8}, now())
				}
				sim, err := fleet.NewSim(now(), fmt.Sprintf("gate%d", i), fleet.Settings{Gates: 8}, func(yield func(string, string, *limiter.Bucket) bool) {
					for j, bucket := range buckets {
						bucket.Miss(100)
						if !yield(fmt.Sprintf("q%d", j), "q", bucket) {
							return
						}
					}
				}, &fleet.Redis{Addresses: []string{r.addr}})
				if err != nil {
					b.Fatal(err)
				}
				defer sim.Close()
				gates[i] = sim
			}
			at := now()
			for range 20 { // every gate has a row in every quota
				at += int64(50 * time.Millisecond)
				for _, g := range gates {
					g.Step(at, true, true)
				}
			}
			r.do("CONFIG", "RESETSTAT")
			for b.Loop() {
				at += int64(250 * time.Millisecond)
				gates[0].Step(at, true, true)
			}
			if failed := gates[0].Failed; failed > 0 {
				b.Fatalf("%d calls failed", failed)
			}
			info, _ := r.do("INFO", "commandstats").(string)
			for line := range strings.SplitSeq(info, "\n") {
				if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:"); ok {
					var n, usec float64
					for field := range strings.SplitSeq(rest, ",") {
						_, _ = fmt.Sscanf(field, "calls=%g", &n)
						_, _ = fmt.Sscanf(field, "usec=%g", &usec)
					}
					b.ReportMetric(usec/float64(b.N), "µs/round")
					b.ReportMetric(usec/float64(b.N)/float64(quotas), "µs/quota")
					b.ReportMetric(n/float64(b.N), "calls/round")
				}
			}
		})
	}
}
