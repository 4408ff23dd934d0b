package limiter

import (
	"hash/maphash"
	"slices"
	"strings"
)

// Bounds of the table of partitions.
const (
	defaultMaxPartitions = 1000
	recentKeys           = 256       // keys added before the table is merged
	evictEvery           = 1e9       // ns between two attempts to evict
	retireAfter          = int64(10) // coarse seconds until a retired partition is forgotten
)

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
	named    []*partition
	def      *partition
	overflow *partition
	dynamic  int // partitions that stand for a client's key
}

// prefix is a named partition that matches a prefix of the key.
type prefix struct {
	text string
	part *partition
}

// retired is a partition that requests may still hold, but none will find.
type retired struct {
	part *partition
	at   int64 // coarse second
}

// lookup finds the partition of a key, nil when the key is new.
func (t *table) lookup(key string) *partition {
	hash := maphash.String(t.seed, key)
	if p := t.keys.find(hash, key); p != nil {
		return p
	}
	if p := t.recent.find(hash, key); p != nil {
		return p
	}
	for i := range t.prefixes {
		if strings.HasPrefix(key, t.prefixes[i].text) {
			return t.prefixes[i].part
		}
	}
	return nil
}

// Apply swaps the policy in force. Partitions that keep their name keep their
// permits in flight, and what their limit learned while its signature is the
// same. Requests that are being decided see the old policy or the new one,
// never a mixture.
func (g *Gate) Apply(policy *Policy) {
	now := g.clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.table.Load()
	t := &table{policy: policy, total: int64(max(policy.Total, 0)), seed: maphash.MakeSeed()}
	if old != nil {
		t.bucket = old.bucket
	}
	t.bucket = changeRate(t.bucket, policy.Rate, now)
	t.def = g.keep(old, DefaultPartition, &policy.Default, now)
	t.overflow = g.keep(old, OverflowPartition, &policy.Default, now)
	t.put("", t.def)
	g.applyNamed(old, t, now)
	g.applyDynamic(old, t, now)
	g.table.Store(t)
	g.pump(nil)
}

// keep returns the partition of that name, the old one where there is one.
func (g *Gate) keep(old *table, name string, policy *PartitionPolicy, now int64) *partition {
	if p := old.byName(name); p != nil {
		p.adopt(policy, now)
		return p
	}
	return g.newPartition(name, name, policy, now)
}

// put enters a partition. t must not be published yet.
func (t *table) put(key string, p *partition) {
	t.keys.put(maphash.String(t.seed, key), key, p)
}

// byName finds a partition that the configuration names.
func (t *table) byName(name string) *partition {
	switch {
	case t == nil:
		return nil
	case name == DefaultPartition:
		return t.def
	case name == OverflowPartition:
		return t.overflow
	}
	for _, p := range t.named {
		if p.name == name {
			return p
		}
	}
	return nil
}

// applyNamed fills t with the policy's named partitions.
func (g *Gate) applyNamed(old, t *table, now int64) {
	for i := range t.policy.Named {
		policy := &t.policy.Named[i]
		p := g.keep(old, policy.Name, policy, now)
		t.named = append(t.named, p)
		match := policy.Match
		if match == "" {
			match = policy.Name
		}
		if text, isPrefix := strings.CutSuffix(match, "*"); isPrefix {
			t.prefixes = append(t.prefixes, prefix{text, p})
		} else {
			t.put(match, p)
		}
	}
	slices.SortStableFunc(t.prefixes, func(a, b prefix) int { return len(b.text) - len(a.text) })
	if old == nil {
		return
	}
	for _, p := range old.named {
		if !slices.Contains(t.named, p) {
			g.retired = append(g.retired, retired{p, now >> coarseShift})
		}
	}
}

// applyDynamic carries the partitions of clients' keys over, as far as they
// still have one and fit.
func (g *Gate) applyDynamic(old, t *table, now int64) {
	if old == nil {
		return
	}
	for _, part := range []*index{&old.keys, &old.recent} {
		for s := range part.entries() {
			p := s.part
			if !p.isDynamic() {
				continue
			}
			if t.lookup(s.key) != nil || t.dynamic >= t.policy.maxPartitions() {
				g.retired = append(g.retired, retired{p, now >> coarseShift})
				continue
			}
			p.adopt(&t.policy.Default, now)
			t.put(s.key, p)
			t.dynamic++
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

// admitKey returns the partition for a key that has none: a new one while there
// is room, else "overflow". When the table is full, partitions that were idle
// for long make room, the least recently used first; partitions in use never
// do, so that a flood of keys cannot make a tenant lose what its limit learned.
func (g *Gate) admitKey(now int64, key string) *partition {
	if key == DefaultPartition || key == OverflowPartition {
		// A client must not name the partitions that others fall into.
		return g.table.Load().overflow
	}
	if t := g.table.Load(); t.dynamic >= t.policy.maxPartitions() && !g.mayEvict(now) {
		return t.overflow
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.table.Load()
	if p := t.lookup(key); p != nil { // somebody was faster
		return p
	}
	if t.dynamic >= t.policy.maxPartitions() {
		if t = g.evict(t, now); t == nil {
			return g.table.Load().overflow
		}
	}
	p := g.newPartition(strings.Clone(key), DefaultPartition, &t.policy.Default, now)
	next := *t
	next.dynamic++
	next.recent = t.recent.clone()
	next.recent.put(maphash.String(t.seed, key), p.name, p)
	if next.recent.used >= recentKeys {
		next.keys = t.keys.clone()
		next.keys.putAll(&next.recent)
		next.recent = index{}
	}
	g.table.Store(&next)
	return p
}

// mayEvict reports whether it is worth trying to evict; a flood of new keys
// finds out with one lock and no scan.
func (g *Gate) mayEvict(now int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return now >= g.evictAt
}

// evict returns a table with room, or nil when every partition is in use. It
// scans all partitions, so it runs at most once a second and makes room for an
// eighth of the bound at once. g.mu is held.
func (g *Gate) evict(t *table, now int64) *table {
	if now < g.evictAt {
		return nil
	}
	g.evictAt = now + evictEvery
	second := uint32(now >> coarseShift)
	keys := t.keys.clone()
	keys.putAll(&t.recent)
	idle := make([]*partition, 0, keys.used)
	for s := range keys.entries() {
		p := s.part
		if p.isDynamic() && second-p.touched.Load() >= idleForEviction && p.tally.held() == 0 && p.queued.Load() == 0 {
			idle = append(idle, p)
		}
	}
	if len(idle) == 0 {
		return nil
	}
	slices.SortFunc(idle, func(a, b *partition) int { return int(int32(a.touched.Load() - b.touched.Load())) })
	room := max(t.policy.maxPartitions()/8, 1)
	leaving := make(map[*partition]bool, room)
	for _, p := range idle[:min(room, len(idle))] {
		leaving[p] = true
		g.retired = append(g.retired, retired{p, int64(second)})
	}
	g.forget(int64(second))
	next := *t
	next.keys, next.recent = index{}, index{}
	for s := range keys.entries() {
		if !leaving[s.part] {
			next.keys.put(s.hash, s.key, s.part)
		}
	}
	next.dynamic = t.dynamic - len(leaving)
	g.table.Store(&next)
	return &next
}

// forget drops retired partitions that nobody can hold any more and keeps their
// counts. g.mu is held.
func (g *Gate) forget(second int64) {
	g.retired = slices.DeleteFunc(g.retired, func(r retired) bool {
		if second-r.at < retireAfter || r.part.tally.held() != 0 || r.part.queued.Load() != 0 {
			return false
		}
		if r.part.isDynamic() {
			g.gone.add(&r.part.counts)
			g.goneAdmitted += r.part.tally.granted()
		}
		return true
	})
}

// add adds the counts of o, which no longer change.
func (c *counts) add(o *counts) {
	c.exempted.Add(o.exempted.Load())
	c.gaveUp.Add(o.gaveUp.Load())
	c.left.Add(o.left.Load())
	c.wasted.Add(o.wasted.Load())
	c.dropped.Add(o.dropped.Load())
	c.ignored.Add(o.ignored.Load())
	c.rejected.add(&o.rejected)
	c.wouldReject.add(&o.wouldReject)
	for i := range o.discarded {
		c.discarded[i].Add(o.discarded[i].Load())
	}
}
