package limiter

import (
	"iter"
	"runtime"
	"slices"
	"strings"
	"time"
)

// NoKeys is a StatusOptions.Partitions that lists no keys of clients.
const NoKeys = -1

// StatusOptions choose which partitions a [Status] lists. The zero value lists
// all. Whatever is chosen, the sums are over all partitions.
type StatusOptions struct {
	// Partitions is how many of clients' keys are listed at most; 0 = all,
	// [NoKeys] or less = none. Those of the configuration are always listed, but on the
	// first page only.
	Partitions int
	// After lists those of clients' keys whose name comes after this one, in
	// bytewise order; "" = from the first.
	After string
	// Contains lists only partitions whose name contains this; "" = any.
	Contains string
}

// pager chooses the partitions that are listed.
type pager struct {
	o      StatusOptions
	always []*partitionSpec
	keys   []*partitionSpec
}

// first lists a partition of the configuration.
func (p *pager) first(s *partitionSpec) {
	if p.o.After == "" && strings.Contains(s.part.name, p.o.Contains) {
		p.always = append(p.always, s)
	}
}

// add considers the partition of a key. No more than twice the page is held.
func (p *pager) add(s *partitionSpec) {
	if p.o.Partitions < 0 || (p.o.After != "" && s.part.name <= p.o.After) || !strings.Contains(s.part.name, p.o.Contains) {
		return
	}
	p.keys = append(p.keys, s)
	if p.o.Partitions > 0 && len(p.keys) >= 2*p.o.Partitions {
		p.cut()
	}
}

// cut keeps the page's worth of keys that come first.
func (p *pager) cut() {
	slices.SortFunc(p.keys, func(a, b *partitionSpec) int { return strings.Compare(a.part.name, b.part.name) })
	if p.o.Partitions > 0 {
		p.keys = p.keys[:min(len(p.keys), p.o.Partitions)]
	}
}

// list returns the page in its order.
func (p *pager) list() []*partitionSpec {
	p.cut()
	return append(p.always, p.keys...)
}

// Rows words the partitions of n of clients' keys at most, by name: those of
// prefer that have one, in that order, and then any. It costs little more than
// the rows, however many partitions there are.
func (g *Gate) Rows(prefer []string, n int) []PartitionStatus {
	t, now := g.partitions.table.Load(), g.clock.Now()
	chosen := make(map[*partition]*partitionSpec, min(n, len(t.keyed)))
	for _, key := range prefer {
		if len(chosen) >= n {
			break
		}
		if s := t.lookup(key); s != nil && s.part.isDynamic() && s.part.name == key {
			chosen[s.part] = s
		}
	}
	if len(chosen) < min(n, len(t.keyed)) {
		for _, p := range t.keyed {
			if len(chosen) >= n {
				break
			}
			chosen[p] = p.spec.Load()
		}
	}
	rows := make([]PartitionStatus, 0, len(chosen))
	for _, s := range chosen {
		rows = append(rows, s.status(now))
	}
	slices.SortFunc(rows, func(a, b PartitionStatus) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

// breath is after how many partitions those who read them all let others have
// the processor: a request that has to wait for it waits for long otherwise.
const breath = 512

// breathe is called with the number of partitions that were read.
func yieldNow(n int) {
	if n%breath == 0 {
		runtime.Gosched()
	}
}

// Brief is the little of a partition that can be read every second, of every
// partition that there is. Counts only grow.
type Brief struct {
	Name                    string
	Key                     bool // as in [PartitionStatus]
	Number                  int  // of a partition as long as it exists; small, for who keeps something of each
	Limit, InFlight, Queued int
	BaseRTT                 time.Duration // 0 = unknown
	Why                     string        // as in [PartitionStatus]
	Admitted, Refused       uint64
	WouldRefuse             uint64 // shadow mode
	Dropped, Succeeded      uint64 // permits ended with that outcome
	Busy                    time.Duration
	Refusals                Refusals // Refused by cause, read as of now; nil = nobody was refused
}

// Refusals are counts of refused requests by cause.
type Refusals interface {
	// By returns the count of a cause, by its position in [Causes].
	By(cause int) uint64
}

// By implements [Refusals].
func (f *causeTotals) By(cause int) uint64 { return f[cause].refused() }

// Briefs reads every partition, in no order. It allocates nothing but what the
// limits' own methods do, and slows no decision down.
func (g *Gate) Briefs() iter.Seq[Brief] {
	return func(yield func(Brief) bool) {
		t := g.partitions.table.Load()
		for _, s := range t.configured() {
			if !yield(s.brief()) {
				return
			}
		}
		for n, p := range t.keyed {
			if !yield(p.spec.Load().brief()) {
				return
			}
			yieldNow(n)
		}
	}
}

// glance reads one partition.
func (s *partitionSpec) brief() Brief {
	p := s.part
	c, marked := &p.counts, p.marks.get()
	held := p.tally.held()
	v := Brief{
		Name: p.name, Key: p.isDynamic(), Number: int(p.number), Limit: int(s.bound()), InFlight: int(held), Queued: int(p.queued.Load()),
		BaseRTT: s.baseRTT(), Why: s.why(), Admitted: p.tally.granted(),
		Busy: time.Duration(c.busy.Load()),
	}
	if v.Refused, v.WouldRefuse = c.fates.sum(marked); v.Refused > 0 {
		v.Refusals = &c.fates
	}
	rest := uint64(held)
	if marked&endMark != 0 {
		v.Dropped = c.dropped.Load()
		rest += v.Dropped + c.ignored.Load()
	}
	v.Succeeded = v.Admitted - min(v.Admitted, rest)
	return v
}

// Shared calls yield with every bucket of the gate whose rate several gates
// share, until it returns false: the ingress's under the name "", those of
// partitions under the name that tells them from each other, "=" and the name of
// one of the configuration or "~" and a client's key. label is what metrics may
// call it.
func (g *Gate) Shared(yield func(name, label string, b *Bucket) bool) {
	t := g.partitions.table.Load()
	if t.bucket.Rate().Sharers > 0 && !yield("", "", t.bucket) {
		return
	}
	for _, s := range t.configured() {
		if s.own.Rate().Sharers > 0 && !yield("="+s.part.name, s.part.label, s.own) {
			return
		}
	}
	if !t.policy.Default.sharesRate() && !t.policy.anyKeyShares() {
		return
	}
	for _, p := range t.keyed {
		s := p.spec.Load()
		if s.own.Rate().Sharers > 0 && !yield("~"+s.part.name, s.part.label, s.own) {
			return
		}
	}
}

// sharesRate reports whether the rate of the partition is shared.
func (p *PartitionPolicy) sharesRate() bool { return p.Rate.Sharers > 0 }

// anyKeyShares reports whether a single key has a rate that is shared.
func (p *Policy) anyKeyShares() bool {
	for _, k := range p.Keys {
		if k.sharesRate() {
			return true
		}
	}
	return false
}

// Limits calls yield with the limit of every partition, until it returns false,
// under the names of [Gate.Shared]; one that partitions share comes once, as that
// of the partition default.
func (g *Gate) Limits(yield func(name, label string, l Limit) bool) {
	t := g.partitions.table.Load()
	if t.common.limit != nil {
		yield("="+DefaultPartition, DefaultPartition, t.common.limit)
		return
	}
	for _, s := range t.configured() {
		if !yield("="+s.part.name, s.part.label, s.limit) {
			return
		}
	}
	for _, p := range t.keyed {
		s := p.spec.Load()
		if !yield("~"+s.part.name, s.part.label, s.limit) {
			return
		}
	}
}
