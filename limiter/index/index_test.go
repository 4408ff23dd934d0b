package index_test

import (
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/admitd/admitd/limiter/index"
)

// Keys are entered while others look: whoever was told that there is an entry finds
// it, in whatever copy of the index it has, and never another's. Copying a hundred
// thousand entries for each 256 new ones took as long as 800 decisions.
func TestFindWhilePutting(t *testing.T) {
	const keys, readers = 3000, 3
	seed := maphash.MakeSeed()
	var (
		now     atomic.Pointer[index.Index[int]]
		entered atomic.Int64
		wg      sync.WaitGroup
	)
	now.Store(&index.Index[int]{})
	find := func(x *index.Index[int], i int) *int {
		key := strconv.Itoa(i)
		return x.Find(maphash.String(seed, key), key)
	}
	for range readers {
		wg.Go(func() {
			for n := 0; n < keys; {
				n = int(entered.Load())
				x := now.Load()
				for i := max(0, n-50); i < n; i++ {
					if v := find(x, i); v == nil || *v != i {
						t.Errorf("%d of %d is not found: %v", i, n, v)
						return
					}
				}
				if v := find(x, keys); v != nil {
					t.Errorf("%d is found for a key that was never entered", *v)
				}
			}
		})
	}
	for i := range keys {
		next := *now.Load()
		key := strconv.Itoa(i)
		next.Put(maphash.String(seed, key), key, &i)
		now.Store(&next)
		entered.Store(int64(i + 1))
	}
	wg.Wait()
	even := now.Load().Without(func(v *int) bool { return *v%2 == 1 })
	for i := range keys {
		if v := find(&even, i); (v != nil) != (i%2 == 0) || v != nil && *v != i {
			t.Errorf("without the odd ones %d is %v", i, v)
		}
		if v := find(now.Load(), i); v == nil || *v != i {
			t.Errorf("the index before has lost %d", i)
		}
	}
}
