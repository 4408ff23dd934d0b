package limiter

import (
	"math"
	"time"
)

// Limit estimates how many requests may be in flight. Implementations are safe
// for concurrent use; Current is one atomic load.
//
// An implementation may also have any of these methods, found by shape:
//
//	Algorithm() string              // its name, as the configuration spells it
//	BaseRTT() time.Duration         // latency without load as it believes it, 0 = unknown
//	State() map[string]float64      // inner state for operators; keys are snake_case
//	Why() string                    // why it last changed, one of a closed set of words
//	Shared() bool                   // whether it is that of several gates, which refusals then name
//
//	// Recall is called at most once, before the first sample, with the latency
//	// without load that an earlier limit of the same algorithm and backend
//	// learned: that of an earlier life of the process, or the one that a change of
//	// the configuration replaces.
//	Recall(base time.Duration)
//
//	// Left learns from a caller that has gone while its request was at work:
//	// the latency will be at least age. inFlight is as for Observe. The permit
//	// ends later, and is observed then if it ends as Success or Dropped.
//	Left(now int64, age time.Duration, inFlight int)
//
//	// Watch is called once, when a partition begins to use the limit. demand
//	// returns how many requests have asked the partition for a permit, and how
//	// many of these were refused one; both only grow, and those that wait are
//	// in neither yet. It is cheap, and may be called from Observe and Left.
//	Watch(demand func() (offered, refused uint64))
type Limit interface {
	// Current returns the present limit, at least 1. A partition holds at most
	// 1,048,575 permits, whatever it returns.
	Current() int
	// Observe learns from one permit that ended at now (monotonic
	// nanoseconds). latency is the time it was held, > 0; inFlight the permits
	// held in the partition when it was granted, itself included; dropped
	// whether its outcome was Dropped. It never blocks.
	Observe(now int64, latency time.Duration, inFlight int, dropped bool)
}

// Clock is where a gate reads the time. The default is the process's monotonic
// clock, always trusted. Implementations are safe for concurrent use and
// cheap: Now is called twice per request. A clock that also has a method
// Sample(ok bool) is told of every latency, and whether it can be true: whether
// it is above zero.
type Clock interface {
	// Now returns monotonic nanoseconds from an arbitrary start.
	Now() int64
	// Trusted reports whether intervals measured with Now mean anything. While
	// it is false, limits behave as their fixed fallback and samples are
	// discarded.
	Trusted() bool
	// Epoch changes whenever the process was paused or the machine suspended.
	// A sample that began in another epoch is discarded.
	Epoch() uint32
}

// Observer is told what the gate cannot count by itself. Its methods are
// called on the request path and must not block.
type Observer interface {
	// Recorder returns where the latencies of one partition are recorded. It
	// is called once per partition, with a label that is bounded by the
	// configuration: the name of a named partition, "default" for every
	// partition that stands for a client's key, or "overflow".
	Recorder(partition string) Recorder
}

// Recorder records the end of permits in one partition.
type Recorder interface {
	// Ended is called once per permit with the time it was held.
	Ended(latency time.Duration, o Outcome)
}

// waitRecorder is a [Recorder] that wants to hear how long requests waited in
// the gate, for tokens or for a permit, before they were admitted. Those that
// did not wait are not told of.
type waitRecorder interface{ Waited(d time.Duration) }

// Tracer is told of single requests, so that traffic can be recorded and
// replayed. Its methods are called on the request path, by many goroutines, and
// must not block.
type Tracer interface {
	// Offered is called before anything is decided, with the gate's clock in
	// monotonic nanoseconds, the request's key and its cost in tokens.
	Offered(now int64, key string, cost float64)
	// Ended is called when a permit ends. start and now are when it was granted
	// and when it ended; a request that did not wait was granted at the very
	// now it was offered at.
	Ended(start, now int64, latency time.Duration, o Outcome)
}

// timekeeper is the [Clock] of a gate: the one it was given, or else the
// process's monotonic clock, which is then read without calls through an
// interface.
type timekeeper struct {
	given   Clock // nil = the monotonic clock
	base    time.Time
	sampler sampler // nil when the clock wants to hear of no samples
}

// sampler is a clock that judges itself by the latencies measured with it.
type sampler interface{ Sample(ok bool) }

func newTimekeeper(given Clock) timekeeper {
	t := timekeeper{given: given, base: time.Now()}
	t.sampler, _ = given.(sampler)
	return t
}

// Now is [Clock.Now].
func (t *timekeeper) Now() int64 {
	if t.given == nil {
		return int64(time.Since(t.base))
	}
	return t.given.Now()
}

// unread stands for the present where nobody has read the clock yet.
const unread = math.MinInt64

// at returns now, reading the clock when that was not done yet.
func (t *timekeeper) at(now int64) int64 {
	if now == unread {
		return t.Now()
	}
	return now
}

// Trusted is [Clock.Trusted].
func (t *timekeeper) Trusted() bool { return t.given == nil || t.given.Trusted() }

// Epoch is [Clock.Epoch].
func (t *timekeeper) Epoch() uint32 {
	if t.given == nil {
		return 0
	}
	return t.given.Epoch()
}

// defaultFallback is the fixed limit used when a policy names none.
const defaultFallback = 20

// newLimit returns a policy's limit.
func newLimit(policy *PartitionPolicy) Limit {
	if policy.NewLimit == nil {
		return fixed(defaultFallback)
	}
	return policy.NewLimit()
}

// fixed is the limit of a policy that names none.
type fixed int

// Current implements [Limit].
func (f fixed) Current() int { return int(f) }

// Observe implements [Limit].
func (fixed) Observe(int64, time.Duration, int, bool) {}

// Algorithm names the limit for operators.
func (fixed) Algorithm() string { return "fixed" }
