package limiter

import (
	"fmt"
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter/bucket"
	"github.com/admitd/admitd/limiter/shape"
)

// NoWait is a Request.MaxWait of a caller that cannot wait; any negative value
// says the same.
const NoWait time.Duration = -1

// Request is what the gate needs to know of a request.
type Request struct {
	// Key names the partition, as the ingress identified it. Named partitions
	// match it; other keys get a partition of their own until the bound on
	// partitions is reached, whose name is [KeyName]. The empty key is the partition "default".
	Key string
	// Cost in tokens. 0 means 1; negative and non-finite costs mean 1.
	Cost float64
	// Free requests spend no token of any rate, whatever Cost says; they need a
	// permit as others do.
	Free bool
	// Exempt requests are counted and hold a permit, but are never refused,
	// unless their partition is blocked, and never wait. Use it for work that drains the system.
	Exempt bool
	// Continues marks an Exempt request that belongs to work which was admitted
	// before, such as the next statement of a transaction: it is not counted as
	// an exemption and pays nothing, since its beginning did.
	Continues bool
	// Ends marks an Exempt request that ends work which was admitted before, such as a
	// commit: a partition that is blocked does not refuse it.
	Ends bool
	// Class says how much the request matters; the zero value is the policy's
	// default. Without [Policy.Classes] nobody looks at it.
	Class labels.Class
	// Unclear marks a request that named a class which there is not; it is counted.
	Unclear bool
	// Shape is what the request has in common with others, from [Gate.Shape]: Cost is
	// then multiplied by what the shape is seen to cost. nil = nothing is known.
	Shape *Shape
	// MaxWait is the longest this caller can wait in queues. 0 sets no bound
	// beyond the policy's, [NoWait] forbids waiting.
	MaxWait time.Duration
	// Deadline is the time until this caller gives up, as of now; 0 = never.
	// It bounds the hint that the caller is given, and nothing else.
	Deadline time.Duration
}

// Shape is what requests have in common, see [shape.Shape]; [Gate.Shape] returns them.
type Shape = shape.Shape

// cost returns the tokens that r spends: 0 when it is free, else finite and > 0.
func (r *Request) cost() float64 {
	if r.Free {
		return 0
	}
	return tokens(r.Cost)
}

// tokens returns a cost as it is spent.
func tokens(cost float64) float64 {
	if cost > 0 && cost <= bucket.MaxCost {
		return cost
	}
	if cost > bucket.MaxCost {
		return bucket.MaxCost
	}
	return 1
}

// Outcome says how the work behind a permit went: is its latency a fair sample
// of the backend?
type Outcome uint8

// The outcomes. The zero value is Dropped, so that a path that forgets to
// judge counts against the limit rather than for it.
const (
	// Dropped: the backend timed out or said that it is overloaded.
	Dropped Outcome = iota
	// Success: the latency is a fair sample.
	Success
	// Ignored: the latency says nothing of the backend, for example because
	// the client went away.
	Ignored
)

// String returns the outcome as it appears in metrics: dropped, success or
// ignored.
func (o Outcome) String() string {
	switch o {
	case Success:
		return "success"
	case Ignored:
		return "ignored"
	default:
		return "dropped"
	}
}

// Mode says what the gate does with its decisions.
type Mode uint8

// The modes. The zero value enforces.
const (
	// Enforce refuses what does not fit.
	Enforce Mode = iota
	// Shadow decides and counts, and never refuses.
	Shadow
	// Off lets everything pass and teaches no limit; requests are counted.
	Off
)

// String returns the mode as the configuration spells it.
func (m Mode) String() string {
	switch m {
	case Shadow:
		return "shadow"
	case Off:
		return "off"
	default:
		return "enforce"
	}
}

// ParseMode is the inverse of [Mode.String].
func ParseMode(s string) (Mode, error) {
	for _, m := range []Mode{Enforce, Shadow, Off} {
		if m.String() == s {
			return m, nil
		}
	}
	return 0, fmt.Errorf("mode must be enforce, shadow or off (%s)", s)
}
