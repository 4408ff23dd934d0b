package modelhttp_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/modelhttp"
)

// The capacity is what the options say: twenty requests of 10 ms on two workers
// take about 100 ms, though all of them come at once.
func TestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modelhttp.New(t.Context(), modelhttp.Options{Workers: 2, Service: 10 * time.Millisecond})
		start := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
				if w.Code != http.StatusOK {
					t.Errorf("status %d; want 200", w.Code)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took < 50*time.Millisecond || took > 150*time.Millisecond {
			t.Errorf("20 requests took %v; want between 50 and 150 ms", took)
		}
	})
}
