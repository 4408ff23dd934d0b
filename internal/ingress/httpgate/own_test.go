package httpgate_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// "Is it the gate?" What the gate itself takes is told of a sample, and neither the
// backend's time nor a wait in the queue is in it.
func TestOwnTime(t *testing.T) {
	const work = 60 * time.Millisecond
	backend := serveHTTP(t, func(http.ResponseWriter, *http.Request) { time.Sleep(work) })
	var mu sync.Mutex
	var told []time.Duration
	g := start(t, backend, limiter.Policy{}, httpgate.Options{Own: func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, d)
	}})
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) >= 8
	}
	for range 100 { // of sixteen in a round one is measured, most often
		if enough() {
			break
		}
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() { get(t, g.url) })
		}
		wg.Wait()
	}
	if !enough() {
		t.Fatalf("of 1600 requests %d were measured; want about a hundred", len(told))
	}
	slices.Sort(told)
	if told[0] <= 0 || told[len(told)/2] >= work {
		t.Errorf("the gate took %v; want more than nothing and less than the backend's %v", told, work)
	}
}

// With Options.Timing every answer tells the gate's own microseconds, a refusal
// too, on the fast path and behind net/http; without, none does, and what a backend
// says under that name is its own.
func TestTiming(t *testing.T) {
	const work = 20 * time.Millisecond
	backend := serveHTTP(t, func(http.ResponseWriter, *http.Request) { time.Sleep(work) })
	own := func(t *testing.T, r reply) {
		t.Helper()
		text, ok := strings.CutPrefix(r.Header.Get("X-Admitd-Timing"), "gate=")
		text, unit := strings.CutSuffix(text, "us")
		us, err := strconv.ParseInt(text, 10, 64)
		if !ok || !unit || err != nil || us < 1 {
			t.Errorf("%s: X-Admitd-Timing %q, want gate=NNus", r.Status, r.Header.Get("X-Admitd-Timing"))
		}
	}
	p := limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "none", Match: "none", Rate: limiter.Rate{PerSecond: 1e-6}}}}
	o := httpgate.Options{By: []string{"header:x-tenant"}, Timing: true}
	for i, ask := range lanes(t, lane{}, start(t, backend, p, o)) {
		var passed time.Duration
		for range 4 { // the first has to connect, which is the backend's time
			r, err := ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if err != nil || r.StatusCode != http.StatusOK {
				t.Fatal(r, err)
			}
			if text := r.Header.Get("X-Admitd-Timing"); text != "" {
				own(t, r)
				passed, _ = time.ParseDuration(strings.TrimPrefix(text, "gate="))
			}
		}
		if passed <= 0 || passed >= work {
			t.Errorf("lane %d: the gate took %v of a request; want more than nothing and less than the backend's %v", i, passed, work)
		}
		for range 2 {
			r, err := ask("GET / HTTP/1.1\r\nHost: a\r\nX-Tenant: none\r\n\r\n")
			if err != nil {
				t.Fatal(err)
			}
			if r.StatusCode == http.StatusTooManyRequests {
				own(t, r)
			}
		}
	}
	silent := start(t, backend, p, httpgate.Options{})
	if r, _ := get(t, silent.url); r.Header["X-Admitd-Timing"] != nil {
		t.Errorf("nobody asked: %v", r.Header)
	}
}
