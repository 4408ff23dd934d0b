package limiter

import (
	"iter"
	"slices"
)

// index finds partitions, as a policy has them, by key. It is an open hash table of which readers hold
// an immutable copy: an entry is one half of a cache line, found with one hash
// that several indexes of the same seed share. That takes half the time of a
// map, on a path where looking up is the dearest part after the clock. The zero
// index is empty.
type index struct {
	slots []slot // a power of two, at most half of them used
	used  int
}

// slot is one entry, or none when spec is nil.
type slot struct {
	hash uint64
	key  string
	spec *partitionSpec
}

// find returns what holds for a key with the given hash, nil when there is
// none.
func (x *index) find(hash uint64, key string) *partitionSpec {
	if len(x.slots) == 0 {
		return nil
	}
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.spec == nil || (s.hash == hash && s.key == key) {
			return s.spec
		}
	}
}

// clone returns a copy that can be changed.
func (x *index) clone() index { return index{slots: slices.Clone(x.slots), used: x.used} }

// put enters a partition, in the place of the one with that key if there is
// one. The index must not be published yet.
func (x *index) put(hash uint64, key string, spec *partitionSpec) {
	if 2*(x.used+1) > len(x.slots) {
		old := x.slots
		x.slots = make([]slot, max(2*len(old), 8))
		for _, s := range old {
			if s.spec != nil {
				*x.place(s.hash, s.key) = s
			}
		}
	}
	s := x.place(hash, key)
	if s.spec == nil {
		x.used++
	}
	*s = slot{hash: hash, key: key, spec: spec}
}

// place returns the slot of a key, or the free one where it belongs.
func (x *index) place(hash uint64, key string) *slot {
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.spec == nil || (s.hash == hash && s.key == key) {
			return s
		}
	}
}

// entries lists the slots in use, in no order.
func (x *index) entries() iter.Seq[*slot] {
	return func(yield func(*slot) bool) {
		for i := range x.slots {
			if s := &x.slots[i]; s.spec != nil && !yield(s) {
				return
			}
		}
	}
}

// putAll enters what another index of the same seed holds.
func (x *index) putAll(o *index) {
	for s := range o.entries() {
		x.put(s.hash, s.key, s.spec)
	}
}
