package modelhttp_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/testkit/modelhttp"
)

// burst sends n requests at once and returns when each was done, in order.
func burst(t *testing.T, b *modelhttp.Backend, n int) (done []time.Duration, full int) {
	t.Helper()
	start := time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			err := b.Do(t.Context())
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, modelhttp.ErrFull) {
				full++
				return
			}
			done = append(done, time.Since(start))
		})
	}
	wg.Wait()
	slices.Sort(done)
	return done, full
}

// Requests are served in waves of as many as there are workers; thrash makes
// them slower by what waits behind them; what does not fit is refused.
func TestQueueing(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		o    modelhttp.Options
		n    int
		want []time.Duration
		full int
	}{
		"default":  {n: 2, want: []time.Duration{10 * ms, 20 * ms}},
		"workers":  {o: modelhttp.Options{Workers: 2, Service: modelhttp.Constant(5 * ms)}, n: 5, want: []time.Duration{5 * ms, 5 * ms, 10 * ms, 10 * ms, 15 * ms}},
		"bounded":  {o: modelhttp.Options{QueueDepth: 1}, n: 4, want: []time.Duration{10 * ms, 20 * ms}, full: 2},
		"no queue": {o: modelhttp.Options{QueueDepth: -1}, n: 3, want: []time.Duration{10 * ms}, full: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := modelhttp.New(tc.o)
				got, full := burst(t, b, tc.n)
				if diff := cmp.Diff(tc.want, got); diff != "" || full != tc.full {
					t.Errorf("%d refused, want %d; ends (-want +got):\n%s", full, tc.full, diff)
				}
				if s := b.Stats(); s.Busy != 0 || s.Queued != 0 || int(s.Served) != len(tc.want) || int(s.Refused) != tc.full {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

// Under overload a backend that thrashes serves less than it could.
func TestThrash(t *testing.T) {
	served := func(thrash float64) (n uint64) {
		synctest.Test(t, func(t *testing.T) {
			b := modelhttp.New(modelhttp.Options{Workers: 4, Thrash: thrash})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var wg sync.WaitGroup
			for range 40 { // ten times as many clients as workers, each always asking
				wg.Go(func() {
					for b.Do(ctx) == nil {
					}
				})
			}
			wg.Wait()
			n = b.Stats().Served
		})
		return n
	}
	calm, thrashing := served(0), served(1)
	if calm < 390 || calm > 400 {
		t.Errorf("served %d in a second without thrash, want the capacity of 400", calm)
	}
	if thrashing > calm/5 {
		t.Errorf("served %d with thrash and %d without; want at most a fifth", thrashing, calm)
	}
}

// A client that leaves frees its place, waiting or served.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := modelhttp.New(modelhttp.Options{Service: modelhttp.Constant(time.Second)})
		first, leaveFirst := context.WithCancel(t.Context())
		second, leaveSecond := context.WithCancel(t.Context())
		go func() { _ = b.Do(first) }()
		synctest.Wait()
		go func() { _ = b.Do(second) }()
		synctest.Wait()
		leaveSecond()
		synctest.Wait()
		if s := b.Stats(); s.Busy != 1 || s.Queued != 0 || s.Abandoned != 1 {
			t.Errorf("after one left the queue: %+v", s)
		}
		leaveFirst()
		synctest.Wait()
		start := time.Now()
		if err := b.Do(t.Context()); err != nil || time.Since(start) != time.Second {
			t.Errorf("Do = %v after %v, want nil after 1 s", err, time.Since(start))
		}
	})
}

// The distributions have the mean or median they name.
func TestDistributions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 20_000
	var sum time.Duration
	var draws []time.Duration
	exponential, logNormal := modelhttp.Exponential(10*time.Millisecond), modelhttp.LogNormal(10*time.Millisecond, 0.5)
	for range n {
		sum += exponential(r)
		draws = append(draws, logNormal(r))
	}
	slices.Sort(draws)
	for what, d := range map[string]time.Duration{"mean of Exponential": sum / n, "median of LogNormal": draws[n/2]} {
		if d < 9500*time.Microsecond || d > 10500*time.Microsecond {
			t.Errorf("%s = %v, want about 10 ms", what, d)
		}
	}
}

// Over HTTP, a full queue is 503.
func TestHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := modelhttp.New(modelhttp.Options{QueueDepth: -1})
		codes := make(chan int, 2)
		for range 2 {
			go func() {
				w := httptest.NewRecorder()
				b.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
				codes <- w.Code
			}()
		}
		if first, second := <-codes, <-codes; first != http.StatusServiceUnavailable || second != http.StatusOK {
			t.Errorf("answers %d, %d; want 503 at once, then 200", first, second)
		}
	})
}
