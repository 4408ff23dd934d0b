package knee

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// Name is how the configuration spells it.
const Name = "knee"

// Options configures a [Limit]. The zero value is the default.
type Options struct {
	InitialLimit int // in [MinLimit, MaxLimit]; 0 = 20, or the bound nearest to it
	MinLimit     int // ≥ 1; 0 = 1
	MaxLimit     int // ≤ 1000000; 0 = 10000
	// Gates is how many gates share the backend, each with a limit of its own,
	// in [1, 10000]; 0 = 1. What is divided among them are the initial limit, the
	// bounds and the queue.
	Gates int
	// Others says that other gates share the backend, each with a limit of its own,
	// and that their number is not known, or changes. The initial limit is a quarter,
	// the bounds are as they are, and what is the others' is measured; a gate that is
	// alone pays at every change of its backend. Without effect where Gates
	// says how many they are.
	Others bool
	// Epoch is what makes of the nanoseconds of [Limit.Observe] a time that all
	// gates share, to a tenth of a second: the wall clock at their zero. Gates that
	// are told of others drain together by it. 0 = they share it already.
	Epoch int64
	// Objective is the time within which an answer is worth having; what is
	// admitted is kept inside it. 0 = what the callers' departures teach.
	Objective time.Duration
	// Queued says that requests which get no permit wait for one instead of being
	// refused at once. They need no queue at the backend, where waiting may cost more:
	// processes, locks.
	Queued bool
}

// Validate reports every value out of range.
func (o Options) Validate() error {
	o = o.WithDefaults()
	return parts.Check(
		"knee",
		parts.Bounds(o.InitialLimit, o.MinLimit, o.MaxLimit),
		parts.InRange("gates", o.Gates, 1, 10_000),
		parts.Within("objective", o.Objective.Seconds(), "[0, 3600]", o.Objective >= 0 && o.Objective <= time.Hour),
	)
}

// WithDefaults returns the options with every zero replaced by what it means.
func (o Options) WithDefaults() Options {
	o.MinLimit = parts.Or(o.MinLimit, 1)
	o.MaxLimit = parts.Or(o.MaxLimit, 10_000)
	o.InitialLimit = parts.Or(o.InitialLimit, parts.Initial(o.MinLimit, o.MaxLimit))
	o.Gates = max(1, o.Gates)
	o.Others = o.Others && o.Gates == 1
	return o
}

// divided returns the options of one gate of several.
func (o Options) divided() Options {
	share := func(n int) int { return max(1, (n+o.Gates-1)/o.Gates) }
	if o.Others { // several that begin at once must not take each other's queue for the backend
		o.InitialLimit = max(o.MinLimit, o.InitialLimit/4)
	}
	o.MinLimit, o.MaxLimit, o.InitialLimit = share(o.MinLimit), share(o.MaxLimit), share(o.InitialLimit)
	return o
}

// A Limit keeps as much in flight as the backend needs to be busy, and a queue
// that follows how much is refused: long where little is, since it is then all
// that stands between a fluctuation and a refusal, and short in overload, where
// it only makes answers late.
//
// It is safe for concurrent use. [Limit.Observe] takes no lock that waits and
// allocates nothing; the caller whose sample ends a window closes it.
type Limit struct {
	published
	samples

	o Options

	mu      sync.Mutex // guards the fields below; taken only by TryLock on the request path
	demand  parts.Demand
	started bool
	state   state
	last    window
	change  parts.Change
	windows uint64
}

// published is what every request and every sample reads.
type published struct {
	current atomic.Int64 // the limit
	start   atomic.Int64 // when this window began
	span    atomic.Int64 // how long it gathers at least
	quota   atomic.Int64 // samples that it needs
	calm    atomic.Int64 // in flight up to which a sample is a calm one
	_       [24]byte     // keeps what every sample writes off the line that every request reads
}

// New returns the limit. Ranges are not checked: see
// [Options.Validate].
func New(o Options) *Limit {
	o = o.WithDefaults().divided()
	k := &Limit{o: o, state: newState(o)}
	k.start.Store(math.MinInt64) // far back, so that the first sample opens a window
	k.publishLocked()
	return k
}

// Current returns the limit, within its bounds. It is one atomic load.
func (k *Limit) Current() int { return int(k.current.Load()) }

// Watch tells the limit where to read how many requests were offered to its
// partition and how many of them it refused for want of a permit, both counted
// since the beginning. Call it before the first sample, at most once.
func (k *Limit) Watch(demand func() (offered, refused uint64)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.demand.Watch(demand)
}

// Recall tells the limit the latency without a queue that another one learned of
// the same backend, so that it need not take what it sees first for that. It is
// proven wrong as one's own is. Call it before the first sample; what is not above
// zero, or over a minute, is ignored.
func (k *Limit) Recall(base time.Duration) {
	if base <= 0 || base > parts.MaxLatency {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.base.recall(base)
	k.publishLocked()
}

// Observe adds the sample of a permit that ended at now, monotonic
// nanoseconds, after latency. inFlight are the permits held when it was
// granted, itself included. A sample that cannot be true (latency ≤ 0 or over
// a minute, inFlight < 1) is counted and discarded; of a drop the latency does
// not matter.
func (k *Limit) Observe(now int64, latency time.Duration, inFlight int, dropped bool) {
	if !parts.Possible(latency, inFlight, dropped) {
		k.discarded.Add(1)
		return
	}
	count := k.add(latency, inFlight, dropped, k.calm.Load())
	// Unsigned, so that a clock that went back closes the window too.
	elapsed := uint64(now - k.start.Load())
	span := uint64(k.span.Load())
	if elapsed >= span || count >= parts.FullSize {
		k.tryClose(now)
	}
}

// tryClose closes the window when it is ready and no one else is at it.
func (k *Limit) tryClose(now int64) {
	if !k.mu.TryLock() {
		return
	}
	defer k.mu.Unlock()
	elapsed := now - k.start.Load()
	if !k.started || elapsed < 0 {
		// The first sample, or a clock that went back: begin here.
		k.started = true
		k.drain(0)
		k.demand.Take() // of no window
		k.start.Store(now)
		return
	}
	calm, busy := k.calmly.latency.Count(), k.busily.latency.Count()
	count, dropped := calm+busy, int64(k.dropped.Load())
	switch {
	case count >= parts.FullSize || dropped >= parts.FullSize:
	case elapsed < k.span.Load():
		return // another sample has just closed it
	case count+dropped < k.quota.Load() && elapsed < k.state.drain.patience():
		return
	}
	k.start.Store(now)
	k.closeLocked(now, elapsed)
}

// closeLocked takes the samples out, decides, and publishes.
func (k *Limit) closeLocked(now, elapsed int64) {
	w := k.drain(elapsed)
	offered, refused, watched := k.demand.Take()
	w.offered, w.refused, w.watched = float64(offered), float64(refused), watched
	w.now = now
	k.last = w
	k.windows++
	before := k.Current()
	next, why := decide(k.o, k.state, w)
	k.state = next
	k.publishLocked()
	k.change.Note(now, before, k.Current(), why)
}

// publishLocked tells the request path what the state asks for.
func (k *Limit) publishLocked() {
	s := &k.state
	k.current.Store(int64(s.enforced(k.o)))
	k.span.Store(s.pace.span)
	k.quota.Store(s.pace.quota)
	k.calm.Store(s.pace.calm)
	k.departures.listen(s.callers.patience, s.base.mean)
}

// Algorithm returns "knee".
func (*Limit) Algorithm() string { return Name }

// BaseRTT returns the mean latency without a queue, 0 before it is known. It is
// one atomic load.
func (k *Limit) BaseRTT() time.Duration { return time.Duration(k.departures.base.Load()) }

// Why returns, in one word, why the limit last changed; empty when it never has.
func (k *Limit) Why() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.change.Why
}

// State returns the inner state, for operators.
func (k *Limit) State() map[string]float64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.state
	state := map[string]float64{
		"limit":                   s.limit,
		"enforced_limit":          float64(k.Current()),
		"min_limit":               float64(k.o.MinLimit),
		"max_limit":               float64(k.o.MaxLimit),
		"base_rtt_seconds":        s.base.mean / 1e9,
		"throughput":              s.flow.rate * 1e9,
		"refused_share":           s.refused,
		"queue":                   s.queue(k.o),
		"patience_seconds":        s.callers.patience / 1e9,
		"ceiling":                 s.drops.ceiling,
		"draining":                float64(min(s.drain.phase, 1)),
		"sample_rtt_seconds":      k.last.mean() / 1e9,
		"sample_count":            k.last.count() + float64(k.last.dropped),
		"sample_peak_in_flight":   float64(k.last.peak),
		"windows_total":           float64(k.windows),
		"remeasured_total":        float64(s.base.remeasured),
		"discarded_samples_total": float64(k.discarded.Load()),
	}
	k.change.Report(state)
	return state
}
