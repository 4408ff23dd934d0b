package index_test

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/admitd/admitd/limiter/index"
)

// entry is a value that tells whose it is, and which of those that its key has had.
type entry struct {
	key   int
	event int64 // of the key: odd ones enter it, even ones remove it
}

// crowded hashes so that many keys begin at the same slot, and some have one hash.
func crowded(key int) (hash uint64, name string) {
	return uint64(key % 24 / 2), strconv.Itoa(key)
}

// Whatever is entered, replaced and removed, in whatever order, an index finds what a
// map does, and has no more slots than what it held at most asked for.
func TestIndexIsAMap(t *testing.T) {
	const keys = 48
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var x index.Index[entry]
		model, most := map[int]*entry{}, 0
		for range 1000 {
			key := rng.IntN(1 + rng.IntN(keys))
			hash, name := crowded(key)
			if rng.IntN(20) < int(seed) {
				x.Remove(hash, name)
				delete(model, key)
			} else {
				model[key] = &entry{key: key}
				x.Put(hash, name, model[key])
			}
			x = copied(x) // as the partition table does
			most = max(most, len(model))
			for key := range keys {
				if got := x.Find(crowded(key)); got != model[key] {
					t.Fatalf("of %d it finds %v, want %v", key, got, model[key])
				}
			}
		}
		if slots := index.Slots(&x); slots > 8*max(most, 1) {
			t.Errorf("%d slots for %d keys at most", slots, most)
		}
	}
}

// copied returns a copy.
func copied(x index.Index[entry]) index.Index[entry] { return x }

// Keys come and go while others look: whoever looks finds what a key has as of then,
// or had meanwhile, never another key's and never what was gone before it looked. Who
// holds an old copy finds what is not newer than now.
func TestFindWhileKeysComeAndGo(t *testing.T) {
	const keys, readers, changes = 48, 3, 20_000
	var (
		now         atomic.Pointer[index.Index[entry]]
		begun, done [keys]atomic.Int64 // events of each key
		over        atomic.Bool
		wg          sync.WaitGroup
	)
	now.Store(&index.Index[entry]{})
	for range readers {
		wg.Go(func() {
			old := now.Load()
			for i := 0; !over.Load() || i%keys != 0; i++ {
				key := i % keys
				if key == 0 {
					runtime.Gosched()
					if i%5 == 0 {
						old = now.Load()
					}
				}
				before := done[key].Load()
				v := now.Load().Find(crowded(key))
				stale := old.Find(crowded(key))
				after := begun[key].Load()
				switch {
				case v == nil && before%2 == 1 && before == after:
					t.Errorf("%d is not found, and was there all the while", key)
				case v != nil && (v.key != key || v.event < before || v.event > after):
					t.Errorf("of %d it finds %+v; its events were %d to %d", key, v, before, after)
				case stale != nil && (stale.key != key || stale.event > after):
					t.Errorf("of %d an old copy finds %+v; its events were %d at most", key, stale, after)
				}
			}
		})
	}
	for i := range changes {
		key := i * 31 % keys
		if i%7 == 0 {
			key = i % 3 // some come and go often
		}
		event := done[key].Load() + 1
		begun[key].Store(event)
		next := *now.Load()
		if hash, name := crowded(key); event%2 == 1 {
			next.Put(hash, name, &entry{key, event})
		} else {
			next.Remove(hash, name)
		}
		now.Store(&next)
		done[key].Store(event)
		if i%64 == 0 {
			runtime.Gosched()
		}
	}
	over.Store(true)
	wg.Wait()
}
