package limiter

import (
	"cmp"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
)

// recentKeys is how many keys are added before the table is merged.
const recentKeys = 256

// defaultMaxPartitions is [Policy.MaxPartitions] where that is 0.
const defaultMaxPartitions = 1000

// table is what a request is decided with: a policy and its partitions. It is
// immutable, so that looking up takes no lock; changes replace it.
type table struct {
	policy *Policy
	bucket *Bucket
	total  int64 // bound on permits over all partitions, 0 = none
	shared Limit // of all partitions; nil = each has its own

	// seed makes hashes that clients cannot foresee, so that no choice of keys
	// makes lookups slow.
	seed     maphash.Seed
	keys     index    // exact matches and clients' keys
	recent   index    // clients' keys added since the last merge
	prefixes []prefix // longest first
	named    []*partitionSpec
	def      *partitionSpec
	overflow *partitionSpec
	dynamic  int // partitions that stand for a client's key
}

// prefix is a named partition that matches a prefix of the key.
type prefix struct {
	text string
	spec *partitionSpec
}

// lookup finds what holds for a key, nil when the key is new.
func (t *table) lookup(key string) *partitionSpec {
	hash := maphash.String(t.seed, key)
	if s := t.keys.find(hash, key); s != nil {
		return s
	}
	if s := t.recent.find(hash, key); s != nil {
		return s
	}
	for i := range t.prefixes {
		if strings.HasPrefix(key, t.prefixes[i].text) {
			return t.prefixes[i].spec
		}
	}
	return nil
}

// put enters a partition. t must not be published yet.
func (t *table) put(key string, s *partitionSpec) {
	t.keys.put(maphash.String(t.seed, key), key, s)
}

// name enters a partition that the configuration names.
func (t *table) name(s *partitionSpec) {
	t.named = append(t.named, s)
	match := cmp.Or(s.policy.Match, s.policy.Name)
	if text, isPrefix := strings.CutSuffix(match, "*"); isPrefix {
		t.prefixes = append(t.prefixes, prefix{text, s})
	} else {
		t.put(match, s)
	}
}

// with returns a table that knows one key more.
func (t *table) with(key string, s *partitionSpec) *table {
	next := *t
	next.dynamic++
	next.recent = t.recent.clone()
	next.recent.put(maphash.String(t.seed, key), key, s)
	if next.recent.used >= recentKeys {
		next.keys = t.keys.clone()
		next.keys.putAll(&next.recent)
		next.recent = index{}
	}
	return &next
}

// without returns a table that lacks some partitions of clients' keys.
func (t *table) without(leaving map[*partition]bool) *table {
	next := *t
	next.keys, next.recent = index{}, index{}
	for _, x := range [2]*index{&t.keys, &t.recent} {
		for s := range x.entries() {
			if !leaving[s.spec.part] {
				next.keys.put(s.hash, s.key, s.spec)
			}
		}
	}
	next.dynamic = t.dynamic - len(leaving)
	return &next
}

// byName finds a partition that the configuration names.
func (t *table) byName(name string) *partitionSpec {
	switch {
	case t == nil:
		return nil
	case name == DefaultPartition:
		return t.def
	case name == OverflowPartition:
		return t.overflow
	}
	for _, s := range t.named {
		if s.part.name == name {
			return s
		}
	}
	return nil
}

// configured lists the partitions that the configuration names, and those that
// exist in every gate.
func (t *table) configured() []*partitionSpec { return append(slices.Clip(t.named), t.def, t.overflow) }

// ofKeys lists the partitions that stand for clients' keys, in no order.
func (t *table) ofKeys() iter.Seq[*partitionSpec] {
	return func(yield func(*partitionSpec) bool) {
		for _, x := range [2]*index{&t.keys, &t.recent} {
			for s := range x.entries() {
				if s.spec.part.isDynamic() && !yield(s.spec) {
					return
				}
			}
		}
	}
}

// maxPartitions returns the bound on dynamic partitions with its default.
func (p *Policy) maxPartitions() int {
	if p.MaxPartitions <= 0 {
		return defaultMaxPartitions
	}
	return min(p.MaxPartitions, maxPartitions)
}

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
