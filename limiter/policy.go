package limiter

import (
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter/shed"
)

// Bounds that keep arithmetic exact and memory finite, whatever the
// configuration says.
const (
	maxPartitions = 100_000
	maxQueue      = 1_000_000
)

// Names of the partitions that exist in every gate.
const (
	DefaultPartition  = "default"
	OverflowPartition = "overflow"
)

// Policy is what a gate enforces. It is read once by [New] and [Gate.Apply]
// and must not be changed afterwards. The zero value admits everything through
// one fixed partition of 20 permits per key.
type Policy struct {
	Mode Mode
	// Rate limits all requests of the gate.
	Rate Rate
	// Total bounds the permits over all partitions; 0 = no bound. Permits
	// granted before a total was introduced do not count towards it.
	Total int
	// Common is a limit of all partitions together, besides those that they have of
	// their own: anyone may take a permit while there are any, and while there are not
	// enough each partition is served by its weight. nil = there is none.
	Common *CommonLimit
	// Shared makes the limit of Default the common one. Limits of other partitions are
	// not looked at.
	Shared bool
	// Backend is shared by all gates before the same backend: their common limit, which
	// is then to be the same for all of them, bounds the permits of all of them
	// together. nil = the gate shares with no other.
	Backend *Backend
	// MaxPartitions bounds the partitions that exist for keys that no named
	// partition matches; 0 = 1000. Further keys share "overflow".
	MaxPartitions int
	// Gates is how many gates clients may turn to for the same backend, this
	// one included; 0 = 1. Where others may be idle the hints stay small.
	Gates int
	// Default is the form of every partition that is not named.
	Default PartitionPolicy
	// Named partitions.
	Named []PartitionPolicy
	// Keys are the forms of single keys, by key: in place of Default, or of the named
	// partition whose prefix matches. Their partitions are those of clients' keys like
	// any other: they need not exist yet, but MaxPartitions does not bound them. The
	// keys "default" and "overflow" are these two partitions. A key that a named
	// partition matches exactly is that partition's.
	Keys map[string]*PartitionPolicy
	// Classes says who goes first when not everything fits; nil = who comes first.
	Classes *Classes
	// Shapes is how many shapes the gate learns the cost of; 0 = it learns none, and
	// [Gate.Shape] returns none. At most 100,000.
	Shapes int
	// Probe has the gate lend permits beyond the limits while the backend answers nothing of
	// what is in flight, so that it finds out when the backend is back before the
	// requests that hang have timed out: as many as are in flight at most, and at least
	// eight. Total is never exceeded.
	Probe bool
	// Witness is told of every decision; nil = nobody is, at no cost.
	Witness Witness
}

// ofKey returns the form of the partition of a client's key.
func (p *Policy) ofKey(key string) *PartitionPolicy {
	if own := p.Keys[key]; own != nil {
		return own
	}
	return &p.Default
}

// PartitionPolicy describes one partition or, as Policy.Default, every
// partition that a client's key creates.
type PartitionPolicy struct {
	// Name is unique in the policy. A partition that keeps its name across
	// [Gate.Apply] keeps its permits in flight and, when Signature is the same
	// too, what its Limit has learned.
	Name string
	// Match is the request key that the partition serves. A trailing *
	// matches any rest; exact matches go first, then the longest prefix.
	Match string
	// Rate limits this partition's requests, in addition to the gate's.
	Rate Rate
	// NewLimit makes the Limit; nil = a fixed limit of 20, or where there is a
	// [Policy.Common] limit none besides that.
	NewLimit func() Limit
	// Signature identifies what NewLimit makes: equal signatures, equal limits.
	Signature string
	// Fallback is the limit while the clock cannot be trusted; 0 = 20.
	Fallback int
	// MaxInFlight bounds the permits of the partition besides its limit; 0 = no bound.
	MaxInFlight int
	// QueueDepth is how many requests may wait for a permit; 0 = none.
	QueueDepth int
	// MaxWait is how long they may wait; 0 with a QueueDepth = 1 s.
	MaxWait time.Duration
	// QueueAuto has the partition choose both by itself; QueueDepth and MaxWait
	// are then not looked at.
	QueueAuto bool
	// Objective is the latency promised for what is admitted, which waiting in
	// an automatic queue must not use up; 0 = none is promised.
	Objective time.Duration
	// Weight is the partition's part of what the partitions share while there is not
	// enough for all, 1 to 1000; 0 = 1. One of weight 2 is given twice as much as one
	// of weight 1.
	Weight int
	// MaxShare is the share that the partition may hold of a bound over all
	// partitions, 0 to 1; 0 = all of it. It is rounded down, to no less than one.
	MaxShare float64
	// Blocked refuses every request, exempt ones too, as by a rate of nothing. Only what
	// goes on with, or ends, work that was admitted before passes.
	Blocked bool
}

// Classes says who goes first when not everything fits. A request above the line
// of its gate is shed: refused before it spends anything (see package shed).
type Classes struct {
	// Default is the class of requests that name none or an unknown one; 0 =
	// critical.
	Default labels.Class
	// Floor is the share of the requests that get in which shedding leaves to a
	// class, 0 to 1, from critical-plus to sheddable; never less than one request
	// a second where it is not 0.
	Floor [ranks]float64
}

// rank returns the place of a request's class.
func (c *Classes) rank(class labels.Class) rank { return shed.RankOf(class, c.Default) }

// ranks is how many classes there are that can be refused.
const ranks = shed.Ranks

// rank is the place of a class that can be refused: 0 goes first.
type rank = shed.Rank
