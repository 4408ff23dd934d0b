package observe

import "sync/atomic"

// LimitChanges is how often the limits of a partition label moved for a reason.
type LimitChanges struct {
	Ingress, Partition, Why string // all from the configuration or closed sets
	Count                   uint64
}

// WatchLimits exposes how often limits moved.
func (m *Metrics) WatchLimits(read func() []LimitChanges) { m.moves.read.Store(&read) }

// moves collects how often limits moved.
type limitMoves struct {
	changes family
	read    atomic.Pointer[func() []LimitChanges]
}

func newMoves() *limitMoves {
	return &limitMoves{changes: newCounter("limit_changes_total", "Times that a concurrency limit moved, by why, as seen once a second.")}
}

// collect implements [source].
func (s *limitMoves) collect(b *builder) {
	read := s.read.Load()
	if read == nil {
		return
	}
	for _, c := range (*read)() {
		b.add(&s.changes, float64(c.Count), pair("ingress", c.Ingress), pair("partition", c.Partition), b.label("why", c.Why))
	}
}
