package dashboards_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/observe"
)

const many = 1000 // partitions

// Scraping the running daemon with a thousand named partitions, each with an
// adaptive limit and a latency histogram, over HTTP.
func TestScrapeOfManyPartitions(t *testing.T) {
	if os.Getenv("ADMITD_BENCH") == "" {
		t.Skip("measures time: set ADMITD_BENCH=1, on a quiet machine")
	}
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(backend.Close)
	a := addresses(t, 2)
	var text strings.Builder
	fmt.Fprintf(&text, "admin: { listen: %s }\nlog: { level: error }\ningresses:\n  - name: orders\n    listen: %s\n    backend: %s\n", a[0], a[1], backend.URL)
	text.WriteString("    partitions:\n      by: header:X-Tenant\n      named:\n")
	for i := range many {
		fmt.Fprintf(&text, "        - { name: tenant-%03d, limit: { algorithm: gradient2 } }\n", i)
	}
	run(t, build(t), text.String())
	touch(t, "http://"+a[1])

	plain := scrapes(t, "http://"+a[0]+"/metrics", "identity")
	packed := scrapes(t, "http://"+a[0]+"/metrics", "gzip")
	t.Logf("scrape of %d partitions over HTTP: plain best %v, median %v; gzip best %v, median %v", many, plain[0], plain[len(plain)/2], packed[0], packed[len(packed)/2])
	// The best, since other work may share the machine. Compression is what the
	// scraper asks for on top; its figure is in the log.
	if plain[0] > 50*time.Millisecond {
		t.Errorf("the best of %d scrapes took %v; want at most 50ms", len(plain), plain[0])
	}
}

// scrapes reads the page some twenty times and returns how long each took, the
// shortest first.
func scrapes(t *testing.T, url, encoding string) (took []time.Duration) {
	t.Helper()
	for range 21 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatalf("request: %v", err)
		}
		req.Header.Set("Accept-Encoding", encoding)
		start := time.Now()
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("scrape: %v", err)
		}
		page, err := io.ReadAll(res.Body)
		took = append(took, time.Since(start))
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("scrape: %s, %v", res.Status, err)
		}
		if n := strings.Count(string(page), "admitd_request_duration_seconds_count{"); encoding == "identity" && n != many {
			t.Fatalf("%d histograms; want %d", n, many)
		}
	}
	slices.Sort(took)
	return took
}

// touch sends one request to every partition.
func touch(t *testing.T, url string) {
	t.Helper()
	for i := range many {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatalf("request: %v", err)
		}
		req.Header.Set("X-Tenant", fmt.Sprintf("tenant-%03d", i))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("request: %v", err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("request to partition %d: %s", i, res.Status)
		}
	}
}

// Scraping does not disturb decisions: in one run, rounds with a scrape and
// rounds without take turns, and p99 of a decision hardly differs. One scrape
// per round of 200 ms is 75 times what a Prometheus does each 15 s.
func TestScrapingDisturbsNoDecision(t *testing.T) {
	if os.Getenv("ADMITD_BENCH") == "" {
		t.Skip("measures time: set ADMITD_BENCH=1, on a quiet machine")
	}
	gate, handler := manyPartitions(t)
	best := 0.0
	for attempt := range 4 { // other work may share the machine; a real disturbance shows each time
		without, with := measure(t, gate, handler)
		ratio := float64(with) / float64(without)
		t.Logf("p99 of a decision: %v without scraping, %v with: ratio %.2f", without, with, ratio)
		if attempt == 0 || ratio < best {
			best = ratio
		}
		if best <= 1.2 {
			return
		}
	}
	t.Errorf("scraping makes p99 of a decision %.2f times as long; want at most 1.2", best)
}

// manyPartitions returns a gate with a thousand partitions that were all used,
// and what answers scrapes of it.
func manyPartitions(t *testing.T) (*limiter.Gate, http.Handler) {
	t.Helper()
	policy := &limiter.Policy{}
	for i := range many {
		policy.Named = append(policy.Named, limiter.PartitionPolicy{
			Name: fmt.Sprintf("tenant-%03d", i),
			NewLimit: func() limiter.Limit {
				l, err := algorithms.New(algorithms.Settings{Algorithm: algorithms.KindGradient2})
				if err != nil {
					t.Fatalf("limit: %v", err)
				}
				return l
			},
		})
	}
	m := observe.New(observe.Options{})
	gate := limiter.New("orders", policy, limiter.Options{Observer: m.Gate("orders")})
	t.Cleanup(m.Watch("orders", gate))
	for i := range policy.Named {
		if err := decide(gate, policy.Named[i].Name); err != nil {
			t.Fatalf("TryAdmit: %v", err)
		}
	}
	return gate, m.Handler()
}

// decide admits and ends one request.
func decide(gate *limiter.Gate, key string) error {
	p, err := gate.TryAdmit(gate.Now(), limiter.Request{Key: key})
	if err == nil {
		p.End(limiter.Success)
	}
	return err
}

// measure returns p99 of decisions in rounds without and with a scrape.
func measure(t *testing.T, gate *limiter.Gate, handler http.Handler) (without, with time.Duration) {
	t.Helper()
	const rounds, length = 20, 200 * time.Millisecond
	var samples [2][]time.Duration
	for round := range rounds {
		scraping := round % 2
		ctx, cancel := context.WithTimeout(t.Context(), length)
		var scrape sync.WaitGroup
		if scraping == 1 {
			scrape.Go(func() {
				req := httptest.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, "/metrics", http.NoBody)
				handler.ServeHTTP(nowhere{http.Header{}}, req)
			})
		}
		for i := 0; ctx.Err() == nil; i++ {
			key := keys[i%many]
			start := time.Now()
			err := decide(gate, key)
			samples[scraping] = append(samples[scraping], time.Since(start))
			if err != nil {
				t.Fatalf("TryAdmit: %v", err)
			}
		}
		cancel()
		scrape.Wait()
	}
	for i := range samples {
		slices.Sort(samples[i])
	}
	p99 := func(s []time.Duration) time.Duration { return s[len(s)*99/100] }
	return p99(samples[0]), p99(samples[1])
}

// keys are the names of the partitions, made once.
var keys = func() (out []string) {
	for i := range many {
		out = append(out, fmt.Sprintf("tenant-%03d", i))
	}
	return out
}()

// nowhere takes a page as a socket's buffers would.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header       { return n.header }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
