package httpgate_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/ingress/httpgate"
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
