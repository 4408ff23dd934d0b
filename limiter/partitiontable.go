package limiter

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/admitd/admitd/limiter/bucket"
	"github.com/admitd/admitd/limiter/index"
)

// Bounds of the partitionTable.
const (
	evictEvery  = 1e9       // ns between two attempts to evict
	retireAfter = int64(10) // coarse seconds until a retired partition is forgotten
)

// partitionTable knows who is a partition: those that the configuration names, and one
// for each key of a client while there is room. Reading it takes no lock.
type partitionTable struct {
	table   atomic.Pointer[policyTable]
	version atomic.Uint64 // odd while a policy is being applied

	gate     *Gate
	observer Observer
	recall   func(partition string, key bool, algorithm string) time.Duration // nil = nothing is known

	mu           sync.Mutex // guards changes of table, and the fields below; never held across a wait
	numbers      numberPool // of the partitions in the table
	evictAt      int64      // monotonic ns before which no eviction is tried
	retired      []retired
	gone         counts // of dynamic partitions that exist no more
	goneAdmitted uint64

	removed map[string]*remainder // of partitions of the configuration that exist no more, by label; at most maxRemoved and removedLabel
}

// maxRemoved is how many labels of removed partitions are told apart. What more of them
// counted goes by removedLabel.
const (
	maxRemoved   = 1000
	removedLabel = "removed"
)

// remainder is what partitions of the configuration that nobody finds any more leave.
type remainder struct {
	counts     counts
	admitted   uint64
	held, left int64
	queued     int64
}

// add adds a partition that was removed.
func (r *remainder) add(p *partition) {
	r.counts.add(&p.counts, p.marks.get())
	r.admitted += p.tally.granted()
	r.held += p.tally.held()
	r.left += int64(max(p.left.Load(), 0))
	r.queued += int64(p.queued.Load())
}

// of returns the remainder of a label.
func of(removed map[string]*remainder, label string) *remainder {
	if removed[label] == nil && len(removed) >= maxRemoved {
		label = removedLabel
	}
	rest := removed[label]
	if rest == nil {
		rest = &remainder{}
		removed[label] = rest
	}
	return rest
}

// retired is a partition that requests may still hold, but none will find.
type retired struct {
	part *partition
	at   int64 // coarse second
}

// numbers gives away numbers that nobody has, and no new one while one was returned: all
// are below the most that there were at once.
type numberPool struct {
	returned []uint32
	next     uint32
}

// take returns a number that nobody has.
func (n *numberPool) take() uint32 {
	if last := len(n.returned) - 1; last >= 0 {
		number := n.returned[last]
		n.returned = n.returned[:last]
		return number
	}
	n.next++
	return n.next - 1
}

// retire keeps a partition for those who hold it, and gives its number to the next.
// r.mu is held.
func (r *partitionTable) retire(p *partition, second int64) {
	r.numbers.returned = append(r.numbers.returned, p.number)
	r.retired = append(r.retired, retired{p, second})
}

// find returns what holds for a key, nil when the key is new.
func (r *partitionTable) find(key string) *partitionSpec { return r.table.Load().lookup(key) }

// resolve returns what holds for a key, and admits the key when it is new: it
// gets a partition while there is room, else "overflow". When the table is full,
// partitions that were idle for long make room, the least recently used first;
// partitions in use never do, so that a flood of keys cannot make a tenant lose
// what its limit learned.
func (r *partitionTable) resolve(now int64, key string) *partitionSpec {
	t := r.table.Load()
	if s := t.lookup(key); s != nil {
		return s
	}
	if !utf8.ValidString(key) {
		return r.resolve(now, KeyName(key))
	}
	if key == DefaultPartition || key == OverflowPartition {
		// A client must not name the partitions that others fall into.
		return t.overflow
	}
	own := t.policy.Keys[key] != nil
	if !own && len(t.keyed) >= t.policy.maxPartitions() && !r.mayEvict(now) {
		return t.overflow
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t = r.table.Load()
	if s := t.lookup(key); s != nil { // somebody was faster
		return s
	}
	own = t.policy.Keys[key] != nil
	if !own && len(t.keyed) >= t.policy.maxPartitions() {
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

// KeyName returns the name of a key's partition: the key itself or, of one that is no
// UTF-8 and that neither JSON nor metrics carry, "sha256:" and the hash of it in hexadecimal.
func KeyName(key string) string {
	if utf8.ValidString(key) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// settle returns when no policy is being applied any more.
func (r *partitionTable) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
}

// apply puts a policy in force. Rates change in place, so that their tokens are
// kept; until everything is in force version is odd.
func (r *partitionTable) apply(now int64, policy *Policy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version.Add(1)
	defer r.version.Add(1)
	old := r.table.Load()
	t := &policyTable{policy: policy, seed: maphash.MakeSeed()}
	if old != nil {
		t.bucket = old.bucket
	}
	t.common = r.common(old, policy)
	t.bucket = bucket.Change(t.bucket, policy.Rate, now)
	t.def = r.keep(old, t, DefaultPartition, policy.ofKey(DefaultPartition), now)
	t.overflow = r.keep(old, t, OverflowPartition, policy.ofKey(OverflowPartition), now)
	t.put("", t.def)
	for i := range policy.Named {
		t.name(r.keep(old, t, policy.Named[i].Name, &policy.Named[i], now))
	}
	slices.SortStableFunc(t.prefixes, func(a, b prefix) int { return len(b.text) - len(a.text) })
	if old != nil {
		r.carryOver(old, t, now)
	}
	for key, form := range policy.Keys {
		if key != DefaultPartition && key != OverflowPartition && !t.exact(key) && t.lookup(key) != nil { // a prefix matches
			own := newPartition(r.gate, key, DefaultPartition, r.observer).adopt(t, form, now)
			t.keyed = append(t.keyed, own.part)
			t.put(key, own)
		}
	}
	r.table.Store(t)
}

// keep returns the partition of that name, the old one where there is one.
func (r *partitionTable) keep(old, t *policyTable, name string, policy *PartitionPolicy, now int64) *partitionSpec {
	if s := old.byName(name); s != nil {
		return s.part.adopt(t, policy, now)
	}
	return newPartition(r.gate, name, name, r.observer).adopt(t, policy, now)
}

// carryOver takes the partitions of clients' keys over, as far as they still
// have one and fit, and retires those that are named no more.
func (r *partitionTable) carryOver(old, t *policyTable, now int64) {
	second := now >> coarseShift
	for _, s := range old.named {
		if t.byName(s.part.name) == nil {
			r.retire(s.part, second)
		}
	}
	t.keyed = make([]*partition, 0, len(old.keyed))
	for _, p := range old.keyed {
		own := t.policy.Keys[p.name] != nil && !t.exact(p.name)
		if !own && (t.lookup(p.name) != nil || len(t.keyed) >= t.policy.maxPartitions()) {
			r.retire(p, second)
			continue
		}
		t.put(p.name, p.adopt(t, t.policy.ofKey(p.name), now))
		t.keyed = append(t.keyed, p)
	}
}

// mayEvict reports whether it is worth trying to evict; a flood of new keys
// finds out with one lock and no scan.
func (r *partitionTable) mayEvict(now int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now >= r.evictAt
}

// evict returns a table with room, or nil when every partition is in use. It
// scans all partitions, so it runs at most once a second and makes room for an
// eighth of the bound at once. r.mu is held.
func (r *partitionTable) evict(t *policyTable, now int64) *policyTable {
	if now < r.evictAt {
		return nil
	}
	r.evictAt = now + evictEvery
	var idle []int // places among those of keys
	for i, p := range t.keyed {
		if p.idle(now) && t.policy.Keys[p.name] == nil {
			idle = append(idle, i)
		}
	}
	if len(idle) == 0 {
		return nil
	}
	slices.SortFunc(idle, func(i, j int) int {
		// Of those of one second the same ones make way in every run.
		a, b := t.keyed[i], t.keyed[j]
		return cmp.Or(int(b.touched.since(a.touched.at())), cmp.Compare(a.hash, b.hash))
	})
	leaving := idle[:min(max(t.policy.maxPartitions()/8, 1), len(idle))]
	second := now >> coarseShift
	for _, i := range leaving {
		r.retire(t.keyed[i], second)
	}
	r.forget(second)
	next := t.without(leaving)
	r.table.Store(next)
	return next
}

// idle reports whether nothing is lost when the partition makes room: nobody
// uses it, and its bucket is as full as the one that would take its place, or
// who is evicted would start again with a full one.
func (p *partition) idle(now int64) bool {
	return p.touched.since(now) >= idleForEviction && p.tally.held() == 0 && p.queued.Load() == 0 && p.spec.Load().own.Full(now)
}

// forget drops retired partitions that nobody can hold any more and keeps their
// counts. r.mu is held.
func (r *partitionTable) forget(second int64) {
	r.retired = slices.DeleteFunc(r.retired, func(old retired) bool {
		if second-old.at < retireAfter || old.part.tally.held() != 0 || old.part.queued.Load() != 0 {
			return false
		}
		if old.part.isDynamic() {
			r.gone.add(&old.part.counts, old.part.marks.get())
			r.goneAdmitted += old.part.tally.granted()
		} else {
			if r.removed == nil {
				r.removed = map[string]*remainder{}
			}
			of(r.removed, old.part.label).add(old.part)
		}
		return true
	})
}

// defaultMaxPartitions is [Policy.MaxPartitions] where that is 0.
const defaultMaxPartitions = 1000

// table is what a request is decided with: a policy and its partitions. Looking up
// takes no lock: changes replace the table, and the next one shares with it what only
// grows.
type policyTable struct {
	policy *Policy
	bucket *Bucket
	common *common // what all partitions share

	// seed makes hashes that clients cannot foresee, so that no choice of keys
	// makes lookups slow.
	seed     maphash.Seed
	keys     index.Index[partitionSpec] // exact matches and clients' keys
	prefixes []prefix                   // longest first
	named    []*partitionSpec
	def      *partitionSpec
	overflow *partitionSpec
	keyed    []*partition // those that stand for a client's key, in no order; tables that follow each other share what it lies in
}

// prefix is a named partition that matches a prefix of the key.
type prefix struct {
	text string
	spec *partitionSpec
}

// lookup finds what holds for a key, nil when the key is new.
func (t *policyTable) lookup(key string) *partitionSpec {
	hash := maphash.String(t.seed, key)
	if s := t.keys.Find(hash, key); s != nil {
		return s
	}
	for i := range t.prefixes {
		if strings.HasPrefix(key, t.prefixes[i].text) {
			return t.prefixes[i].spec
		}
	}
	return nil
}

// exact reports whether a partition is entered for the key itself.
func (t *policyTable) exact(key string) bool {
	return t.keys.Find(maphash.String(t.seed, key), key) != nil
}

// put enters a partition. Who reads the table before it finds it from now on as well.
func (t *policyTable) put(key string, s *partitionSpec) {
	t.keys.Put(maphash.String(t.seed, key), key, s)
}

// name enters a partition that the configuration names.
func (t *policyTable) name(s *partitionSpec) {
	t.named = append(t.named, s)
	match := cmp.Or(s.policy.Match, s.policy.Name)
	if text, isPrefix := strings.CutSuffix(match, "*"); isPrefix {
		t.prefixes = append(t.prefixes, prefix{text, s})
	} else {
		t.put(match, s)
	}
}

// with returns a table that knows one key more.
func (t *policyTable) with(key string, s *partitionSpec) *policyTable {
	next := *t
	next.keyed = append(t.keyed, s.part)
	next.put(key, s)
	return &next
}

// without returns a table that lacks some partitions of clients' keys, of which the
// places are given. Who reads the table before finds them no more either.
func (t *policyTable) without(leaving []int) *policyTable {
	next := *t
	next.keyed = slices.Clone(t.keyed)
	for _, i := range leaving {
		name := next.keyed[i].name
		next.keys.Remove(maphash.String(t.seed, name), name)
		next.keyed[i] = nil
	}
	next.keyed = slices.DeleteFunc(next.keyed, func(p *partition) bool { return p == nil })
	return &next
}

// byName finds a partition that the configuration names.
func (t *policyTable) byName(name string) *partitionSpec {
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
func (t *policyTable) configured() []*partitionSpec {
	return append(slices.Clip(t.named), t.def, t.overflow)
}

// maxPartitions returns the bound on dynamic partitions with its default.
func (p *Policy) maxPartitions() int {
	if p.MaxPartitions <= 0 {
		return defaultMaxPartitions
	}
	return min(p.MaxPartitions, maxPartitions)
}
