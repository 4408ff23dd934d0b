package baseline

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Memory is what was read, to be asked by partition, and what is learned since.
// It is safe for concurrent use. The zero value knows nothing.
type Memory struct {
	mu   sync.Mutex // guards the fields below
	all  map[place]*Partition
	seen []Ingress // what was believed last
}

// maxAway bounds the ingresses that are kept although nobody runs them.
const maxAway = 64

// place is where something was learned.
type place struct {
	ingress, protocol, backend, partition string
	key                                   bool
}

// Load takes what a file said, in place of what was known.
func (m *Memory) Load(all []Ingress) (partitions int) {
	known := map[place]*Partition{}
	for i := range all {
		in := &all[i]
		for j := range in.Partitions {
			p := &in.Partitions[j]
			known[place{in.Name, in.Protocol, in.Backend, p.Name, p.Key}] = p
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = known
	return len(known)
}

// Of returns what was learned of a partition as of now, false when nothing that
// holds. in names the ingress, its protocol and its backend.
func (m *Memory) Of(in *Ingress, partition string, key bool, now time.Time) (Partition, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.all[place{in.Name, in.Protocol, in.Backend, partition, key}]
	if p == nil || !p.holds(now) {
		return Partition{}, false
	}
	return *p, true
}

// Saw takes what is believed now of every ingress that there is. What was believed of one
// that is gone is known from then on.
func (m *Memory) Saw(learned []Ingress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sawLocked(learned)
}

// sawLocked is [Memory.Saw].
func (m *Memory) sawLocked(learned []Ingress) {
	for i := range m.seen {
		in := &m.seen[i]
		if slices.ContainsFunc(learned, in.isAt) {
			continue
		}
		if m.all == nil {
			m.all = map[place]*Partition{}
		}
		for j := range in.Partitions {
			p := &in.Partitions[j]
			m.all[place{in.Name, in.Protocol, in.Backend, p.Name, p.Key}] = p
		}
	}
	m.seen = learned
}

// isAt reports whether two ingresses have one name, protocol and backend.
func (in *Ingress) isAt(o Ingress) bool {
	return in.Name == o.Name && in.Protocol == o.Protocol && in.Backend == o.Backend
}

// awayLocked returns what is known of ingresses that are not among those that there are, the
// latest ones, by their names.
func (m *Memory) awayLocked(there []Ingress) (away []Ingress) {
	skip := make(map[place]bool, len(there))
	for _, in := range there {
		skip[place{ingress: in.Name, protocol: in.Protocol, backend: in.Backend}] = true
	}
	index := map[place]int{} // into away
	for at, p := range m.all {
		in := place{ingress: at.ingress, protocol: at.protocol, backend: at.backend}
		if skip[in] {
			continue
		}
		i, ok := index[in]
		if !ok {
			i, index[in] = len(away), len(away)
			away = append(away, Ingress{Name: at.ingress, Protocol: at.protocol, Backend: at.backend})
		}
		away[i].Partitions = append(away[i].Partitions, *p)
	}
	for i := range away {
		latestFirst(away[i].Partitions)
	}
	slices.SortFunc(away, func(a, b Ingress) int {
		return cmp.Or(b.Partitions[0].Seen.Compare(a.Partitions[0].Seen), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Backend, b.Backend))
	})
	for _, in := range away[min(len(away), maxAway):] {
		for _, p := range in.Partitions {
			delete(m.all, place{in.Name, in.Protocol, in.Backend, p.Name, p.Key})
		}
	}
	return away[:min(len(away), maxAway)]
}

// latestFirst sorts partitions by when they were believed last.
func latestFirst(all []Partition) []Partition {
	slices.SortFunc(all, func(a, b Partition) int { return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.Name, b.Name)) })
	return all
}

// With returns what is believed now and, behind it, what was learned earlier of
// partitions that nobody has asked since: those of now come first, in their order. Behind
// those are the ingresses that nobody runs any more, 64 at most.
func (m *Memory) With(now time.Time, learned []Ingress) []Ingress {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sawLocked(learned)
	for at, p := range m.all {
		if !p.holds(now) {
			delete(m.all, at)
		}
	}
	out := slices.Clone(learned)
	for i := range out {
		in := &out[i]
		in.Partitions = slices.Clone(in.Partitions)
		told := make(map[place]bool, len(in.Partitions))
		for _, p := range in.Partitions {
			told[place{in.Name, in.Protocol, in.Backend, p.Name, p.Key}] = true
		}
		var rest []Partition
		for at, p := range m.all {
			if at.ingress == in.Name && at.protocol == in.Protocol && at.backend == in.Backend && !told[at] {
				rest = append(rest, *p)
			}
		}
		in.Partitions = append(in.Partitions, latestFirst(rest)...)
	}
	return append(out, m.awayLocked(learned)...)
}
