package lab_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/lab"
)

// ask sends one request to a handler and returns how long it took; patience 0 =
// without end.
func ask(t *testing.T, h http.Handler, patience time.Duration) (took time.Duration, status int) {
	t.Helper()
	ctx := t.Context()
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	w := httptest.NewRecorder()
	begin := time.Now()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
	return time.Since(begin), w.Code
}

// The live backend is the model: one worker of 100 ms answers one after the
// other, is slower when the scenario says so, and works on or stops when its
// caller leaves.
func TestLiveBackendIsTheModel(t *testing.T) {
	for cancelled, second := range map[string]time.Duration{"continues": 200 * time.Millisecond, "stops": 150 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			s := parsed(t, smallest+"backend: { workers: 1, queue: 1, service: { kind: constant, mean: 100ms }, cancelled: "+cancelled+" }\nhealth: [{ at: 5s, slow: 3 }]\n")
			run, _ := s.Variant("default")
			b := lab.NewLiveBackend(ctx, run, 1)
			go ask(t, b, 50*time.Millisecond)
			synctest.Wait()
			answered := make(chan time.Duration, 1)
			go func() {
				took, _ := ask(t, b, 0)
				answered <- took
			}()
			synctest.Wait()
			if _, status := ask(t, b, 0); status != http.StatusServiceUnavailable {
				t.Errorf("%s: a third one got %d; want 503, since the queue has one place", cancelled, status)
			}
			time.Sleep(time.Second)
			if took := <-answered; took != second {
				t.Errorf("%s: the second one took %v; want %v", cancelled, took, second)
			}
			time.Sleep(5 * time.Second)
			if took, _ := ask(t, b, 0); took != 300*time.Millisecond {
				t.Errorf("%s: three times as slow, it took %v; want 300ms", cancelled, took)
			}
			stop()
			synctest.Wait()
		})
	}
}

// Who shares a processor has more of it once the other's work was stopped; who waits
// for a worker for too long is told so.
func TestLiveBackendEndsWork(t *testing.T) {
	for backend, want := range map[string]struct {
		took   time.Duration
		status int
	}{
		"discipline: sharing, cancelled: stops":     {130 * time.Millisecond, http.StatusOK}, // 30 ms until the other left after 60
		"discipline: sharing, cancelled: continues": {200 * time.Millisecond, http.StatusOK},
		"queueTimeout: 70ms":                        {70 * time.Millisecond, http.StatusServiceUnavailable},
		"queueTimeout: 101ms":                       {200 * time.Millisecond, http.StatusOK},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			run, _ := parsed(t, smallest+"backend: { workers: 1, service: { kind: constant, mean: 100ms }, "+backend+" }\n").Variant("default")
			b := lab.NewLiveBackend(ctx, run, 1)
			go ask(t, b, 60*time.Millisecond)
			synctest.Wait()
			if took, status := ask(t, b, 0); took != want.took || status != want.status {
				t.Errorf("%s: took %v with %d; want %v with %d", backend, took, status, want.took, want.status)
			}
			stop()
			synctest.Wait()
		})
	}
}
