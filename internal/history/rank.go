package history

import "slices"

// keptRanks is how many partitions of each ingress are ranked.
const keptRanks = 200

// consider ranks a partition among those that were seen before it. Only what is kept is
// sorted.
func (l *partitionTable) consider(p *partition) {
	if n := len(l.ranked); n < keptRanks {
		l.ranked = append(l.ranked, nil)
	} else if !p.before(l.ranked[n-1]) {
		return
	}
	last := len(l.ranked) - 1
	at, _ := slices.BinarySearchFunc(l.ranked[:last], p, func(a, b *partition) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	copy(l.ranked[at+1:], l.ranked[at:last])
	l.ranked[at] = p
}

// order tells the partitions their ranks.
func (l *partitionTable) order() {
	for i, p := range l.ranked {
		p.rank = i
	}
}

// before reports whether p is asked more than other, or as much with a lower number. Names
// would be a cache line more of each of a hundred thousand that are all asked alike.
func (p *partition) before(other *partition) bool {
	return p.active > other.active || p.active == other.active && p.last.Number < other.last.Number
}

// Busiest returns the clients' keys of an ingress that are asked most, the first
// of them first: at most n, and 200 in all.
func (b *Book) Busiest(name string, n int) (keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.ingresses[name]
	if r == nil {
		return nil
	}
	for _, p := range r.roll.ranked {
		if p.last.Key && len(keys) < n {
			keys = append(keys, p.last.Name)
		}
	}
	return keys
}

// MostRefused returns the partition of an ingress, of those that are asked most, for which
// most was refused since the call before, and how much; "" and 0 when nothing was. Of what
// was refused before the first reading it knows nothing.
func (b *Book) MostRefused(name string) (partition string, refused uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.ingresses[name]
	if r == nil {
		return "", 0
	}
	for _, p := range r.roll.ranked {
		n := p.last.Refused - min(p.told, p.last.Refused)
		if p.told = p.last.Refused; n > refused {
			partition, refused = p.last.Name, n
		}
	}
	return partition, refused
}

// Gauges are figures of an ingress over all its partitions.
type Gauges struct {
	Limit     int     // of those that were asked, bounded by the total; 0 = none was
	BaseRTTMS float64 // weighted by what they were asked; 0 = unknown
}

// Gauges returns the figures of an ingress, zero when it was not read yet.
func (b *Book) Gauges(name string) Gauges {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.ingresses[name]
	if r == nil {
		return Gauges{}
	}
	return Gauges{Limit: r.pace.limit, BaseRTTMS: r.pace.base.Seconds() * 1e3}
}
