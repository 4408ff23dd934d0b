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
}

// What was removed is found no more, what was not is, and a key may come back; and
// however long keys come and go, no more slots are taken than they need at once.
func TestRemove(t *testing.T) {
	const live, rounds = 100, 40
	var x index.Index[int]
	hash := func(i int) (uint64, string) { return uint64(i) % 64 * 0x9e3779b97f4a7c15, strconv.Itoa(i) }
	for i := range live * rounds {
		n := i / 2 * 2 // every second one was there, and is put again
		key, name := hash(n)
		x.Put(key, name, &n)
		if out := n - 2*live; out >= 0 {
			x.Remove(hash(out))
			x.Remove(hash(out))
		}
		for j := max(0, n-3*live); j <= n+1; j++ {
			v := x.Find(hash(j))
			if there := j%2 == 0 && j > n-2*live; (v != nil) != there || there && *v != j {
				t.Fatalf("after %d, %d is %v; there: %v", n, j, v, there)
			}
		}
	}
	if slots := index.Slots(&x); slots > 8*live {
		t.Errorf("%d slots for %d keys", slots, live)
	}
	first, name := hash(0)
	x.Put(first, name, new(int))
	if x.Find(first, name) == nil {
		t.Error("a key that was removed cannot come back")
	}
}
