package selection

import (
	"fmt"
	"slices"
	"time"
)

// stalenessWireVersion is the first protocol version whose servers tell when
// they last wrote.
const stalenessWireVersion = 5

// Operation is what a server is wanted for. The zero value is a read from the
// primary.
type Operation struct {
	Name  string // for logs and errors, such as "find" or "GET /orders"
	ID    int64  // for logs; one id for all attempts. 0 = none
	Write bool   // a write: Preference is ignored
	// Preference says who may serve a read.
	Preference ReadPreference
	// Deprioritized are addresses to avoid, usually those that refused an
	// earlier attempt. They are chosen only when no other server suits.
	Deprioritized []string
}

// Filter is an application's own rule: of the suitable servers it returns
// those that still are; anything else it returns is ignored. The slice is its
// own, what it points to is read only. It is called from the goroutine that
// selects, so from many at once.
type Filter func(suitable []*Server) []*Server

// Suitable returns the servers that the operation may go to, before the
// latency window. None is not an error: it may change. An error, which matches
// [ErrPreference] or [ErrIncompatible], says that waiting cannot help.
func (t *Topology) Suitable(op *Operation) ([]*Server, error) {
	return t.appendSuitable(nil, op, nil)
}

// appendSuitable appends the suitable servers to dst, which is empty. A
// deprioritized server is left out before any other rule, so that a preferred
// mode falls back to its second choice first; only when that leaves nothing,
// filter included, is everyone considered.
func (t *Topology) appendSuitable(dst []*Server, op *Operation, filter Filter) ([]*Server, error) {
	if err := t.check(op); err != nil {
		return dst, err
	}
	found := t.pass(dst, op, op.Deprioritized, filter)
	if len(found) == 0 && len(op.Deprioritized) > 0 {
		found = t.pass(dst, op, nil, filter)
	}
	return found, nil
}

// check finds what no change of the servers' health can cure.
func (t *Topology) check(op *Operation) error {
	if err := t.Compatible(); err != nil {
		return err
	}
	if op.Write {
		return nil
	}
	if err := op.Preference.Validate(); err != nil {
		return err
	}
	d, bounded := op.Preference.maxStaleness()
	if !bounded {
		return nil
	}
	for _, s := range t.Servers {
		if d > 0 && s.Type.Available() && s.MaxWireVersion > 0 && s.MaxWireVersion < stalenessWireVersion {
			return fmt.Errorf("%w: max staleness needs wire version %d, server %s speaks up to %d",
				ErrIncompatible, stalenessWireVersion, s.Address, s.MaxWireVersion)
		}
	}
	if t.Type.replicaSet() {
		return op.Preference.validateInSet(t.heartbeat())
	}
	return nil
}

// pass applies the rules of the topology, then the filter, to every server
// that is not in avoid.
func (t *Topology) pass(dst []*Server, op *Operation, avoid []string, filter Filter) []*Server {
	var found []*Server
	switch {
	case t.Type == TopologyUnknown:
		return dst
	case !t.Type.replicaSet():
		found = t.anyOf(dst, avoid)
	case op.Write:
		found = t.writable(dst, avoid)
	default:
		found = t.readable(dst, &op.Preference, avoid)
	}
	if filter == nil || len(found) == 0 {
		return found
	}
	// The application gets a slice of its own: found is used again.
	kept := filter(slices.Clone(found))
	return slices.DeleteFunc(found, func(s *Server) bool { return !slices.Contains(kept, s) })
}

// anyOf serves the topologies in which all servers are alike.
func (t *Topology) anyOf(dst []*Server, avoid []string) []*Server {
	for _, s := range t.Servers {
		suits := s.Type.Available()
		if t.Type == Sharded {
			suits = s.Type == Mongos
		}
		if suits && !slices.Contains(avoid, s.Address) {
			dst = append(dst, s)
		}
	}
	return dst
}

// ofType appends the servers of one of two types.
func (t *Topology) ofType(dst []*Server, a, b ServerType, avoid []string) []*Server {
	for _, s := range t.Servers {
		if (s.Type == a || s.Type == b) && !slices.Contains(avoid, s.Address) {
			dst = append(dst, s)
		}
	}
	return dst
}

func (t *Topology) writable(dst []*Server, avoid []string) []*Server {
	if t.Type == ReplicaSetNoPrimary {
		return dst
	}
	return t.ofType(dst, RSPrimary, RSPrimary, avoid)
}

func (t *Topology) readable(dst []*Server, p *ReadPreference, avoid []string) []*Server {
	switch p.Mode {
	case Nearest:
		return t.eligible(t.ofType(dst, RSPrimary, RSSecondary, avoid), p)
	case Secondary, SecondaryPreferred:
		found := t.eligible(t.ofType(dst, RSSecondary, RSSecondary, avoid), p)
		if p.Mode == Secondary || len(found) > 0 {
			return found
		}
		return t.ofType(dst, RSPrimary, RSPrimary, avoid)
	case Primary, PrimaryPreferred:
	}
	found := t.ofType(dst, RSPrimary, RSPrimary, avoid)
	if p.Mode == Primary || len(found) > 0 {
		return found
	}
	return t.eligible(t.ofType(dst, RSSecondary, RSSecondary, avoid), p)
}

// eligible keeps the candidates that are fresh enough and, of these, the ones
// that the first matching tag set matches. Staleness comes first: a tag set
// whose servers are all too stale must not hide the next one. It works in
// place.
func (t *Topology) eligible(candidates []*Server, p *ReadPreference) []*Server {
	if limit, ok := p.maxStaleness(); ok {
		candidates = slices.DeleteFunc(candidates, t.stalerThan(limit))
	}
	if len(p.TagSets) == 0 {
		return candidates
	}
	for _, ts := range p.TagSets {
		if found := matching(candidates, ts); len(found) > 0 {
			return found
		}
	}
	return candidates[:0]
}

// matching keeps the servers that ts matches, in place; when there are none
// the candidates are left as they were. The pairs are taken out of the map
// once: to walk it for each server would cost more than all the rest.
func matching(candidates []*Server, ts TagSet) []*Server {
	type pair struct{ key, value string }
	var few [4]pair
	pairs := few[:0]
	for k, v := range ts {
		pairs = append(pairs, pair{k, v})
	}
	n := 0
candidates:
	for _, s := range candidates {
		for _, want := range pairs {
			if got, ok := s.Tags[want.key]; !ok || got != want.value {
				continue candidates
			}
		}
		candidates[n] = s
		n++
	}
	return candidates[:n]
}

// stalerThan returns the test whether a server is too stale. With a primary,
// a secondary is behind by how much older its last write was at its last
// answer than the primary's was at the primary's; without, by its distance to
// the freshest secondary. Either may be wrong by one heartbeat, which is added.
// The reference is taken from the whole topology: that a server is avoided
// does not make its clock wrong.
func (t *Topology) stalerThan(limit time.Duration) func(*Server) bool {
	heartbeat := t.heartbeat().Milliseconds()
	ref := t.primary()
	withPrimary := ref != nil && !ref.LastWrite.IsZero()
	if !withPrimary {
		ref = t.freshest()
	}
	return func(s *Server) bool {
		if s.Type != RSSecondary {
			return false
		}
		if s.LastWrite.IsZero() {
			return true // it does not tell: nothing can be promised
		}
		behind := ref.LastWrite.UnixMilli() - s.LastWrite.UnixMilli()
		if withPrimary {
			behind += s.LastUpdate.UnixMilli() - ref.LastUpdate.UnixMilli()
		}
		return behind+heartbeat > limit.Milliseconds()
	}
}

// freshest returns the secondary with the newest write, or nil without
// secondaries.
func (t *Topology) freshest() *Server {
	var best *Server
	for _, s := range t.Servers {
		if s.Type == RSSecondary && (best == nil || s.LastWrite.After(best.LastWrite)) {
			best = s
		}
	}
	return best
}

// InWindow returns the servers whose average round trip is at most threshold
// above the shortest one, in their order. A server without an average, such as
// a load balancer, is always inside. A negative threshold counts as zero.
func InWindow(servers []*Server, threshold time.Duration) []*Server {
	return inWindow(slices.Clone(servers), threshold)
}

// inWindow is InWindow in place.
func inWindow(servers []*Server, threshold time.Duration) []*Server {
	if len(servers) < 2 {
		return servers
	}
	shortest, found := time.Duration(0), false
	for _, s := range servers {
		if s.RTT.known && (!found || s.RTT.average < shortest) {
			shortest, found = s.RTT.average, true
		}
	}
	// Subtracting, not adding: a huge threshold must not overflow.
	threshold = max(threshold, 0)
	kept := servers[:0]
	for _, s := range servers {
		if !s.RTT.known || s.RTT.average-shortest <= threshold {
			kept = append(kept, s)
		}
	}
	return kept
}
