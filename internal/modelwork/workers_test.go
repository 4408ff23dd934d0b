package modelwork_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/modelwork"
)

// Two workers of 10 ms serve ten requests in 50 ms; a restart serves at once
// what waits, and leaves at work what is.
func TestWorkersHaveAKnownCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := modelwork.New(2, 10*time.Millisecond)
		ask := func(n int) *sync.WaitGroup {
			var all sync.WaitGroup
			for range n {
				all.Go(func() { w.Work(t.Context()) })
			}
			return &all
		}
		begin := time.Now()
		ask(10).Wait()
		if took := time.Since(begin); took != 50*time.Millisecond {
			t.Errorf("ten requests took %v; want 50ms", took)
		}
		begin = time.Now()
		rest := ask(10)
		synctest.Wait()
		w.Restart()
		rest.Wait()
		if took := time.Since(begin); took != 10*time.Millisecond {
			t.Errorf("with a restart ten requests took %v; want the 10ms of the two at work", took)
		}
	})
}
