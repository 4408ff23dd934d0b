// Package index finds values by key, many times for each time that one is entered.
//
// An [Index] is an open hash table that is read without a lock while one who holds a
// lock changes it: an entry is one half of a cache line, found with a hash that the
// caller has. That takes half the time of a map, on a path where looking up is the
// dearest part after the clock. It knows neither hashes nor what it finds.
package index

import "sync/atomic"

// Index is an open hash table. The zero Index is empty. Of its copies only the last
// one may be changed, by one at a time; all of them may be read meanwhile, and may or
// may not find what was entered or removed after they were made.
type Index[T any] struct {
	slots   []slot[T] // a power of two, at most half of them used
	used    int       // slots with a key
	removed int       // of those
	gone    *T        // in the place of what was removed
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
		if value == nil {
			return nil
		}
		if s.hash == hash && s.key == key {
			if value == x.gone {
				return nil
			}
			return value
		}
	}
}

// Put enters a value, in the place of the one with that key if there is one.
func (x *Index[T]) Put(hash uint64, key string, value *T) {
	if 2*(x.used+1) > len(x.slots) {
		x.move()
	}
	s := x.place(hash, key)
	switch s.value.Load() {
	case nil:
		s.hash, s.key = hash, key
		x.used++
	case x.gone:
		x.removed--
	}
	s.value.Store(value)
}

// Remove removes the value of a key, if there is one. Its slot stays taken until
// the entries are moved.
func (x *Index[T]) Remove(hash uint64, key string) {
	if x.Find(hash, key) != nil {
		x.place(hash, key).value.Store(x.gone)
		x.removed++
	}
}

// move moves the entries to as many slots as they need.
func (x *Index[T]) move() {
	size := max(len(x.slots), 8)
	if live := x.used - x.removed; 4*live >= size {
		size *= 2
	}
	next := Index[T]{slots: make([]slot[T], size), gone: new(T)}
	for i := range x.slots {
		s := &x.slots[i]
		if value := s.value.Load(); value != nil && value != x.gone {
			next.Put(s.hash, s.key, value)
		}
	}
	*x = next
}

// place returns the slot of a key, or the free one where it belongs.
func (x *Index[T]) place(hash uint64, key string) *slot[T] {
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.value.Load() == nil || (s.hash == hash && s.key == key) {
			return s
		}
	}
}
