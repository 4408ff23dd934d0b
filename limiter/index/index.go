// Package index finds values by key, many times for each time that one is entered.
//
// An [Index] is an open hash table of which readers hold an immutable copy: an entry
// is one half of a cache line, found with one hash that several indexes of the same
// seed share. That takes half the time of a map, on a path where looking up is the
// dearest part after the clock. It knows neither hashes nor what it finds.
package index

import (
	"iter"
	"slices"
)

// Index is an open hash table. The zero Index is empty. Reading it is safe for
// concurrent use while nobody changes it.
type Index[T any] struct {
	slots []Slot[T] // a power of two, at most half of them used
	used  int
}

// Slot is one entry, or none when Value is nil.
type Slot[T any] struct {
	Hash  uint64
	Key   string
	Value *T
}

// Len returns how many entries there are.
func (x *Index[T]) Len() int { return x.used }

// Find returns what holds for a key with the given hash, nil when there is
// none.
func (x *Index[T]) Find(hash uint64, key string) *T {
	if len(x.slots) == 0 {
		return nil
	}
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.Value == nil || (s.Hash == hash && s.Key == key) {
			return s.Value
		}
	}
}

// Clone returns a copy that can be changed.
func (x *Index[T]) Clone() Index[T] { return Index[T]{slots: slices.Clone(x.slots), used: x.used} }

// Put enters a value, in the place of the one with that key if there is
// one. Nobody may read the index meanwhile.
func (x *Index[T]) Put(hash uint64, key string, value *T) {
	if 2*(x.used+1) > len(x.slots) {
		old := x.slots
		x.slots = make([]Slot[T], max(2*len(old), 8))
		for _, s := range old {
			if s.Value != nil {
				*x.place(s.Hash, s.Key) = s
			}
		}
	}
	s := x.place(hash, key)
	if s.Value == nil {
		x.used++
	}
	*s = Slot[T]{Hash: hash, Key: key, Value: value}
}

// place returns the slot of a key, or the free one where it belongs.
func (x *Index[T]) place(hash uint64, key string) *Slot[T] {
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.Value == nil || (s.Hash == hash && s.Key == key) {
			return s
		}
	}
}

// Entries lists the slots in use, in no order.
func (x *Index[T]) Entries() iter.Seq[*Slot[T]] {
	return func(yield func(*Slot[T]) bool) {
		for i := range x.slots {
			if s := &x.slots[i]; s.Value != nil && !yield(s) {
				return
			}
		}
	}
}

// PutAll enters what another index of the same seed holds.
func (x *Index[T]) PutAll(o *Index[T]) {
	for s := range o.Entries() {
		x.Put(s.Hash, s.Key, s.Value)
	}
}
