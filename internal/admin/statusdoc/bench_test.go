package statusdoc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/admin/statusdoc"
	"github.com/admitd/admitd/internal/history"
	"github.com/admitd/admitd/limiter"
)

// BenchmarkBeat takes the reading of one second of a gate with many partitions, of
// which some were asked since the one before.
func BenchmarkBeat(b *testing.B) {
	const partitions = 100_000
	for _, asked := range []int{0, 1000, 45_000, partitions} {
		b.Run(fmt.Sprint("asked-", asked), func(b *testing.B) {
			g := limiter.New("orders", &limiter.Policy{MaxPartitions: partitions}, limiter.Options{})
			keys := make([]string, partitions)
			for i := range keys {
				keys[i] = fmt.Sprintf("t%08d", i)
			}
			next := 0
			ask := func(n int) {
				for range n {
					p, err := g.Admit(b.Context(), limiter.Request{Key: keys[next*7919%partitions]})
					if err != nil {
						b.Fatal(err)
					}
					p.End(limiter.Success)
					next++
				}
			}
			ask(partitions)
			read := func(_ string, o limiter.StatusOptions) statusdoc.Snapshot {
				return statusdoc.Snapshot{Ingresses: []statusdoc.Ingress{{Name: "orders", Gate: g.Page(o), Glances: g.Briefs()}}}
			}
			p := statusdoc.New(read, &history.Book{}, func(string) string { return "" })
			now := time.Now()
			for b.Loop() {
				b.StopTimer()
				ask(asked)
				now = now.Add(time.Second)
				b.StartTimer()
				p.Beat(now)
			}
		})
	}
}
