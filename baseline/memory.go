package baseline

import (
	"slices"
	"sync"
	"time"
)

// Memory is what was read, to be asked by partition, and what is learned since.
// It is safe for concurrent use. The zero value knows nothing.
type Memory struct {
	mu  sync.Mutex // guards the field below
	all map[place]*Partition
}

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

// With returns what is believed now and, behind it, what was learned earlier of
// partitions that nobody has asked since: those of now come first, in their order.
func (m *Memory) With(now time.Time, learned []Ingress) []Ingress {
	m.mu.Lock()
	defer m.mu.Unlock()
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
			if at.ingress == in.Name && at.protocol == in.Protocol && at.backend == in.Backend && !told[at] && p.holds(now) {
				rest = append(rest, *p)
			}
		}
		slices.SortFunc(rest, func(a, b Partition) int { return b.Seen.Compare(a.Seen) })
		in.Partitions = append(in.Partitions, rest...)
	}
	return out
}
