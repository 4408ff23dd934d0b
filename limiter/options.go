package limiter

import (
	"math"
	"time"
)

// Options are the collaborators of a [Gate]. The zero value works.
type Options struct {
	// Clock is where the gate reads the time; nil = the monotonic clock.
	Clock Clock
	// Observer records latencies; nil = nobody does.
	Observer Observer
	// Tracer is told of every request and of every permit that ends; nil =
	// nobody is. [Gate.Trace] replaces it.
	Tracer Tracer
	// Recall returns the latency without load of a partition as the algorithm
	// learned it in an earlier life, 0 = nothing is known; key says that it stands
	// for a client's key. It is asked at most once for each limit that is made, and
	// told to those that have a method Recall, see [Limit]. It must not call the
	// gate, nor wait. nil = nothing is known of any.
	Recall func(partition string, key bool, algorithm string) time.Duration
	// EndedTwice is told, once per gate, that a [Permit] was copied and both copies
	// were ended, which is a mistake of the caller; nil = the standard logger. It must
	// not block.
	EndedTwice func(partition string)
	// Rand returns uniform 64-bit values for the jitter of hints; nil =
	// math/rand/v2. It must be safe for concurrent use.
	Rand func() uint64
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

// gateClock is the [Clock] of a gate: the one it was given, or else the
// process's monotonic clock, which is then read without calls through an
// interface.
type gateClock struct {
	given   Clock // nil = the monotonic clock
	base    time.Time
	sampler sampler // nil when the clock wants to hear of no samples
}

// sampler is a clock that judges itself by the latencies measured with it.
type sampler interface{ Sample(ok bool) }

func newGateClock(given Clock) gateClock {
	t := gateClock{given: given, base: time.Now()}
	t.sampler, _ = given.(sampler)
	return t
}

// Now is [Clock.Now].
func (t *gateClock) Now() int64 {
	if t.given == nil {
		return int64(time.Since(t.base))
	}
	return t.given.Now()
}

// unread stands for the present where nobody has read the clock yet.
const unread = math.MinInt64

// at returns now, reading the clock when that was not done yet.
func (t *gateClock) at(now int64) int64 {
	if now == unread {
		return t.Now()
	}
	return now
}

// Trusted is [Clock.Trusted].
func (t *gateClock) Trusted() bool { return t.given == nil || t.given.Trusted() }

// Epoch is [Clock.Epoch].
func (t *gateClock) Epoch() uint32 {
	if t.given == nil {
		return 0
	}
	return t.given.Epoch()
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

// Witness is told of everything that a policy decides, so that other limits can
// be tried on the same requests. Its methods are called on the request path, by
// many goroutines; they must neither block nor call the gate. A permit is told
// to the witness of the policy that granted it, whatever is in force by then.
type Witness interface {
	// Decided is called once per request, with the gate's clock in monotonic
	// nanoseconds. req has the cost that its shape was seen to have, and no shape.
	Decided(now int64, req Request, v Verdict)
	// Waited is called when a request that [Waits] is admitted or refused, perhaps
	// before Decided has told of the wait; offered is when it was decided. Those
	// that give up are not told.
	Waited(offered, now int64, v Verdict)
	// Ended is as for [Tracer].
	Ended(start, now int64, latency time.Duration, o Outcome)
}

// Verdict is what was decided about a request.
type Verdict uint8

// The verdicts.
const (
	Refused Verdict = iota
	Waits           // for a token or a permit
	Admitted
)

// witnessing tells a witness what was decided.
func witnessing(w Witness, now int64, req *Request, waits bool, why cause) {
	v := Refused
	switch {
	case waits:
		v = Waits
	case why == admitted:
		v = Admitted
	}
	told := *req
	told.Shape = nil // is the gate's own, which learns from what is true; the cost has its price already
	w.Decided(now, told, v)
}
