package limiter

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/limiter/bucket"
)

// Bounds of the roster.
const (
	evictEvery  = 1e9       // ns between two attempts to evict
	retireAfter = int64(10) // coarse seconds until a retired partition is forgotten
)

// roster knows who is a partition: those that the configuration names, and one
// for each key of a client while there is room. Reading it takes no lock.
type roster struct {
	table   atomic.Pointer[table]
	version atomic.Uint64 // odd while a policy is being applied

	gate     *Gate
	observer Observer
	recall   func(partition string, key bool, algorithm string) time.Duration // nil = nothing is known

	mu           sync.Mutex // guards changes of table, and the fields below; never held across a wait
	evictAt      int64      // monotonic ns before which no eviction is tried
	retired      []retired
	gone         counts // of dynamic partitions that exist no more
	goneAdmitted uint64
}

// retired is a partition that requests may still hold, but none will find.
type retired struct {
	part *partition
	at   int64 // coarse second
}

// find returns what holds for a key, nil when the key is new.
func (r *roster) find(key string) *partitionSpec { return r.table.Load().lookup(key) }

// resolve returns what holds for a key, and admits the key when it is new: it
// gets a partition while there is room, else "overflow". When the table is full,
// partitions that were idle for long make room, the least recently used first;
// partitions in use never do, so that a flood of keys cannot make a tenant lose
// what its limit learned.
func (r *roster) resolve(now int64, key string) *partitionSpec {
	t := r.table.Load()
	if s := t.lookup(key); s != nil {
		return s
	}
	if key == DefaultPartition || key == OverflowPartition {
		// A client must not name the partitions that others fall into.
		return t.overflow
	}
	if t.dynamic >= t.policy.maxPartitions() && !r.mayEvict(now) {
		return t.overflow
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t = r.table.Load()
	if s := t.lookup(key); s != nil { // somebody was faster
		return s
	}
	if t.dynamic >= t.policy.maxPartitions() {
		room := r.evict(t, now)
		if room == nil {
			return t.overflow
		}
		t = room
	}
	key = strings.Clone(key)
	s := newPartition(r.gate, key, DefaultPartition, r.observer).adopt(t, t.policy.ofKey(key), now)
	r.table.Store(t.with(key, s))
	return s
}

// settle returns when no policy is being applied any more.
func (r *roster) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
}

// apply puts a policy in force. Rates change in place, so that their tokens are
// kept; until everything is in force version is odd.
func (r *roster) apply(now int64, policy *Policy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version.Add(1)
	defer r.version.Add(1)
	old := r.table.Load()
	t := &table{policy: policy, total: int64(max(policy.Total, 0)), seed: maphash.MakeSeed()}
	if old != nil {
		t.bucket = old.bucket
	}
	t.shared = r.share(old, policy)
	t.bucket = bucket.Change(t.bucket, policy.Rate, now)
	t.def = r.keep(old, t, DefaultPartition, &policy.Default, now)
	t.overflow = r.keep(old, t, OverflowPartition, &policy.Default, now)
	t.put("", t.def)
	for i := range policy.Named {
		t.name(r.keep(old, t, policy.Named[i].Name, &policy.Named[i], now))
	}
	slices.SortStableFunc(t.prefixes, func(a, b prefix) int { return len(b.text) - len(a.text) })
	if old != nil {
		r.carryOver(old, t, now)
	}
	r.table.Store(t)
}

// keep returns the partition of that name, the old one where there is one.
func (r *roster) keep(old, t *table, name string, policy *PartitionPolicy, now int64) *partitionSpec {
	if s := old.byName(name); s != nil {
		return s.part.adopt(t, policy, now)
	}
	return newPartition(r.gate, name, name, r.observer).adopt(t, policy, now)
}

// carryOver takes the partitions of clients' keys over, as far as they still
// have one and fit, and retires those that are named no more.
func (r *roster) carryOver(old, t *table, now int64) {
	second := now >> coarseShift
	for _, s := range old.named {
		if t.byName(s.part.name) == nil {
			r.retired = append(r.retired, retired{s.part, second})
		}
	}
	for s := range old.ofKeys() {
		p := s.part
		if t.lookup(p.name) != nil || t.dynamic >= t.policy.maxPartitions() {
			r.retired = append(r.retired, retired{p, second})
			continue
		}
		t.put(p.name, p.adopt(t, t.policy.ofKey(p.name), now))
		t.dynamic++
	}
}

// mayEvict reports whether it is worth trying to evict; a flood of new keys
// finds out with one lock and no scan.
func (r *roster) mayEvict(now int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now >= r.evictAt
}

// evict returns a table with room, or nil when every partition is in use. It
// scans all partitions, so it runs at most once a second and makes room for an
// eighth of the bound at once. r.mu is held.
func (r *roster) evict(t *table, now int64) *table {
	if now < r.evictAt {
		return nil
	}
	r.evictAt = now + evictEvery
	var idle []*partition
	for s := range t.ofKeys() {
		if s.part.idle(s, now) {
			idle = append(idle, s.part)
		}
	}
	if len(idle) == 0 {
		return nil
	}
	slices.SortFunc(idle, func(a, b *partition) int {
		// Of those of one second the same ones make way in every run.
		return cmp.Or(int(b.touched.since(a.touched.at())), cmp.Compare(a.hash, b.hash))
	})
	room := max(t.policy.maxPartitions()/8, 1)
	leaving := make(map[*partition]bool, room)
	second := now >> coarseShift
	for _, p := range idle[:min(room, len(idle))] {
		leaving[p] = true
		r.retired = append(r.retired, retired{p, second})
	}
	r.forget(second)
	next := t.without(leaving)
	r.table.Store(next)
	return next
}

// idle reports whether nothing is lost when the partition makes room: nobody
// uses it, and its bucket is as full as the one that would take its place, or
// who is evicted would start again with a full one.
func (p *partition) idle(s *partitionSpec, now int64) bool {
	return p.touched.since(now) >= idleForEviction && p.tally.held() == 0 && p.queued.Load() == 0 && s.own.Full(now)
}

// forget drops retired partitions that nobody can hold any more and keeps their
// counts. r.mu is held.
func (r *roster) forget(second int64) {
	r.retired = slices.DeleteFunc(r.retired, func(old retired) bool {
		if second-old.at < retireAfter || old.part.tally.held() != 0 || old.part.queued.Load() != 0 {
			return false
		}
		if old.part.isDynamic() {
			r.gone.add(&old.part.counts)
			r.goneAdmitted += old.part.tally.granted()
		}
		return true
	})
}
