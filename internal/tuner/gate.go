package tuner

import (
	"context"
	"time"
)

// Gate is the daemon, as far as the tuner reads and moves it. Safe for
// concurrent use.
type Gate interface {
	// Read returns what is true now. It is called about once per second.
	Read() State
	// Patch changes the settings of one ingress, through the door that people
	// use. document is a JSON merge patch in the words of the configuration,
	// with named partitions keyed by their name. by names who asked the tuner
	// for it; "" = a policy. It fails when the configuration is no longer the
	// one of the generation.
	Patch(ctx context.Context, generation uint64, ingress, by string, document []byte) error
}

// State is what a [Gate] says of itself.
type State struct {
	// Hold is why nothing may change now, such as a clock that is not trusted
	// or a drain; "" = nothing stands against it.
	Hold string
	// Generation grows whenever the configuration is read anew.
	Generation uint64
	// Settings of every ingress by name, as a patch that would set them: decoded
	// from JSON, with named partitions keyed by their name.
	Settings map[string]map[string]any
	// Objectives of latency that ingresses state, by name; those of a trial go
	// first.
	Objectives map[string]time.Duration
	// Measurements by ingress, and by "ingress/partition" for partitions that have a
	// name.
	Vitals map[string]Measurements
}

// Measurements are the counts of a gate or a partition since it began.
type Measurements struct {
	Offered  uint64 // requests that were decided
	Refused  uint64
	InFlight int
	Queued   int
	// Latency counts the successes by how long they took. Its buckets may be
	// any, as long as they rarely change.
	Latency Latencies
}

// Latencies is a histogram: how many took at most so many seconds, and longer
// than the next smaller bound. Bounds are in seconds.
type Latencies map[float64]uint64

// Source reads the number behind a signal. It returns by the deadline of ctx.
type Source interface {
	// Read returns the number, and when it was true; the zero time is now.
	Read(ctx context.Context) (value float64, at time.Time, err error)
}

// Closer is a [Source] that holds connections. It is closed when the tuner
// ends.
type Closer interface{ Close() error }
