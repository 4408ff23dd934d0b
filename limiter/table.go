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

// isDynamic reports whether the partition stands for a client's key.
func (p *partition) isDynamic() bool {
	return p.label == DefaultPartition && p.name != DefaultPartition
}

// maxPartitions returns the bound on dynamic partitions with its default.
func (p *Policy) maxPartitions() int {
	if p.MaxPartitions <= 0 {
		return defaultMaxPartitions
	}
	return min(p.MaxPartitions, maxPartitions)
}
