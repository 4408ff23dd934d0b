// Package index finds values by key, many times for each time that one is entered.
//
// An [Index] is an open hash table that is read without a lock while one who holds a
// lock enters values: an entry is one half of a cache line, found with a hash that the
// caller has. That takes half the time of a map, on a path where looking up is the
// dearest part after the clock. It knows neither hashes nor what it finds.
package index

import "sync/atomic"

// Index is an open hash table. The zero Index is empty. Of its copies only the last
// one may be changed, by one at a time; all of them may be read meanwhile, and may or
// may not find what was entered after they were made.
type Index[T any] struct {
	slots []slot[T] // a power of two, at most half of them used
	used  int
}

// slot is one entry, or none as long as value is nil.
type slot[T any] struct {
	hash  uint64 // this and key do not change once there is a value
	key   string
	value atomic.Pointer[T]
}

// Find returns what holds for a key with the given hash, nil when there is
// none.
func (x *Index[T]) Find(hash uint64, key string) *T {
	if len(x.slots) == 0 {
		return nil
	}
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		value := s.value.Load()
		if value == nil || (s.hash == hash && s.key == key) {
			return value
		}
	}
}

// Put enters a value, in the place of the one with that key if there is one.
func (x *Index[T]) Put(hash uint64, key string, value *T) {
	if 2*(x.used+1) > len(x.slots) {
		*x = x.moved(max(2*len(x.slots), 8), func(*T) bool { return true })
	}
	x.put(hash, key, value)
}

// Without returns an index of the values that are not leaving.
func (x *Index[T]) Without(leaving func(*T) bool) Index[T] {
	return x.moved(len(x.slots), func(value *T) bool { return !leaving(value) })
}

// moved returns an index of so many slots with what is to stay.
func (x *Index[T]) moved(size int, stays func(*T) bool) Index[T] {
	next := Index[T]{slots: make([]slot[T], size)}
	for i := range x.slots {
		s := &x.slots[i]
		if value := s.value.Load(); value != nil && stays(value) {
			next.put(s.hash, s.key, value)
		}
	}
	return next
}

// put enters a value for which there is a slot.
func (x *Index[T]) put(hash uint64, key string, value *T) {
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		switch {
		case s.value.Load() == nil:
			s.hash, s.key = hash, key
			x.used++
		case s.hash != hash || s.key != key:
			continue
		}
		s.value.Store(value)
		return
	}
}
