package algorithms

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// KneeOptions configures [Knee]. The zero value is the default.
type KneeOptions struct {
	InitialLimit int // in [MinLimit, MaxLimit]; 0 = 20
	MinLimit     int // ≥ 1; 0 = 1
	MaxLimit     int // ≤ 1000000; 0 = 1000
	// Gates is how many gates share the backend, each with a limit of its own,
	// in [1, 10000]; 0 = 1. What is divided among them are the initial limit, the
	// bounds and the queue.
	Gates int
	// Epoch is what makes of the nanoseconds of [Knee.Observe] a time that all
	// gates share, to a tenth of a second: the wall clock at their zero. Gates that
	// are told of each other drain together by it. 0 = they share it already.
	Epoch int64
	// Objective is the time within which an answer is worth having; what is
	// admitted is kept inside it. 0 = what the callers' departures teach.
	Objective time.Duration
}

// Validate reports every value out of range.
func (o KneeOptions) Validate() error {
	o = o.withDefaults()
	return check(
		"knee",
		bounds(o.InitialLimit, o.MinLimit, o.MaxLimit),
		inRange("gates", o.Gates, 1, 10_000),
		within("objective", o.Objective.Seconds(), "[0, 3600]", o.Objective >= 0 && o.Objective <= time.Hour),
	)
}

func (o KneeOptions) withDefaults() KneeOptions {
	o.InitialLimit = or(o.InitialLimit, 20)
	o.MinLimit = or(o.MinLimit, 1)
	o.MaxLimit = or(o.MaxLimit, 1000)
	o.Gates = max(1, o.Gates)
	return o
}

// divided returns the options of one gate of several.
func (o KneeOptions) divided() KneeOptions {
	share := func(n int) int { return max(1, (n+o.Gates-1)/o.Gates) }
	o.MinLimit, o.MaxLimit, o.InitialLimit = share(o.MinLimit), share(o.MaxLimit), share(o.InitialLimit)
	return o
}

// A Knee keeps as much in flight as the backend needs to be busy, and a queue
// that follows how much is refused: long where little is, since it is then all
// that stands between a fluctuation and a refusal, and short in overload, where
// it only makes answers late. [docs/algorithms.md] derives it.
//
// It is safe for concurrent use. [Knee.Observe] takes no lock that waits and
// allocates nothing; the caller whose sample ends a window closes it.
//
// [docs/algorithms.md]: https://github.com/admitd/admitd/blob/main/docs/algorithms.md
type Knee struct {
	current atomic.Int64 // the published limit, read by every request
	start   atomic.Int64 // when this window began
	span    atomic.Int64 // how long it gathers at least
	quota   atomic.Int64 // samples that it needs
	calm    atomic.Int64 // in flight up to which a sample is a calm one
	_       [24]byte     // keeps what every sample writes off the line that every request reads

	calmly, busily class
	peak           atomic.Int64
	dropped        atomic.Uint64
	discarded      atomic.Uint64 // impossible samples since the beginning
	departures     departures

	o      KneeOptions
	demand func() (offered, refused uint64)

	mu      sync.Mutex // guards the fields below; taken only by TryLock on the request path
	started bool
	state   kneeState
	last    kneeWindow
	change  change
	windows uint64
	offered uint64
	refused uint64
}

// class is the samples that were admitted at few, or at many, in flight.
type class struct {
	latency atomic.Uint64 // count and sum, as [Window] packs them
	held    atomic.Uint64 // sum of permits in flight at grant
}

func (c *class) add(latency time.Duration, inFlight int) (count int64) {
	c.held.Add(uint64(inFlight))
	return int64(c.latency.Add(1<<sumBits|uint64(latency)>>sumUnit) >> sumBits)
}

// drain empties the class.
func (c *class) drain() (n int, latency, held float64) {
	word := c.latency.Swap(0)
	return int(word >> sumBits), float64(word & sumMask << sumUnit), float64(c.held.Swap(0))
}

// NewKnee returns the limit. Ranges are not checked: see
// [KneeOptions.Validate].
func NewKnee(o KneeOptions) *Knee {
	o = o.withDefaults().divided()
	k := &Knee{o: o, state: newKneeState(o)}
	k.start.Store(math.MinInt64) // far back, so that the first sample opens a window
	k.publish()
	return k
}

// Current returns the limit, within its bounds. It is one atomic load.
func (k *Knee) Current() int { return int(k.current.Load()) }

// Watch tells the limit where to read how many requests were offered to its
// partition and how many of them it refused for want of a permit, both counted
// since the beginning. Call it before the first sample, at most once.
func (k *Knee) Watch(demand func() (offered, refused uint64)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.demand = demand
	k.offered, k.refused = demand()
}

// Recall tells the limit the latency without a queue that another one learned of
// the same backend, so that it need not take what it sees first for that. It is
// proven wrong as one's own is. Call it before the first sample; what is not above
// zero, or over a minute, is ignored.
func (k *Knee) Recall(base time.Duration) {
	if base <= 0 || base > maxLatency {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.recall(base)
	k.publish()
}

// Observe adds the sample of a permit that ended at now, monotonic
// nanoseconds, after latency. inFlight are the permits held when it was
// granted, itself included. A sample that cannot be true (latency ≤ 0 or over
// a minute, inFlight < 1) is counted and discarded; of a drop the latency does
// not matter.
func (k *Knee) Observe(now int64, latency time.Duration, inFlight int, dropped bool) {
	if uint(inFlight-1) >= maxInFlight || (uint64(latency-1) >= uint64(maxLatency) && !dropped) {
		k.discarded.Add(1)
		return
	}
	for peak := k.peak.Load(); int64(inFlight) > peak && !k.peak.CompareAndSwap(peak, int64(inFlight)); {
		peak = k.peak.Load()
	}
	var count int64
	switch {
	case dropped:
		count = int64(k.dropped.Add(1))
	case int64(inFlight) <= k.calm.Load():
		count = k.calmly.add(latency, inFlight)
	default:
		count = k.busily.add(latency, inFlight)
	}
	// Unsigned, so that a clock that went back closes the window too.
	elapsed := uint64(now - k.start.Load())
	span := uint64(k.span.Load())
	if elapsed >= span || count >= fullSize {
		k.tryClose(now)
	}
}

// tryClose closes the window when it is ready and no one else is at it.
func (k *Knee) tryClose(now int64) {
	if !k.mu.TryLock() {
		return
	}
	defer k.mu.Unlock()
	elapsed := now - k.start.Load()
	if !k.started || elapsed < 0 {
		// The first sample, or a clock that went back: begin here.
		k.started = true
		k.drain(0)
		k.start.Store(now)
		return
	}
	calm, busy := int64(k.calmly.latency.Load()>>sumBits), int64(k.busily.latency.Load()>>sumBits)
	count, dropped := calm+busy, int64(k.dropped.Load())
	switch {
	case count >= fullSize || dropped >= fullSize:
	case elapsed < k.span.Load():
		return // another sample has just closed it
	case count+dropped < k.quota.Load() && elapsed < k.state.patienceOfWindow():
		return
	}
	k.start.Store(now)
	k.closeLocked(now, elapsed)
}

// closeLocked takes the samples out, decides, and publishes.
func (k *Knee) closeLocked(now, elapsed int64) {
	w := k.drain(elapsed)
	w.now = now
	k.last = w
	k.windows++
	before := k.Current()
	next, why := decideKnee(k.o, k.state, w)
	k.state = next
	k.publish()
	k.change.note(now, before, k.Current(), why)
}

// publish tells the request path what the state asks for.
func (k *Knee) publish() {
	s := &k.state
	k.current.Store(int64(s.enforced(k.o)))
	k.span.Store(s.span)
	k.quota.Store(s.quota)
	k.calm.Store(s.calm)
	k.departures.listen(s.patience, s.base)
}

// drain empties the window. Samples that arrive meanwhile belong to one window
// or the other, never to both.
func (k *Knee) drain(elapsed int64) kneeWindow {
	w := kneeWindow{elapsed: float64(elapsed), peak: int(k.peak.Swap(0)), dropped: int(k.dropped.Swap(0))}
	var calm, busy, calmHeld, busyHeld float64
	w.calm, calm, calmHeld = k.calmly.drain()
	w.busy, busy, busyHeld = k.busily.drain()
	w.latency, w.held = calm+busy, calmHeld+busyHeld
	w.calmLatency, w.calmHeld = calm, calmHeld
	w.left = k.departures.drain()
	if k.demand != nil {
		offered, refused := k.demand()
		w.offered, w.refused, w.watched = float64(offered-k.offered), float64(refused-k.refused), true
		k.offered, k.refused = offered, refused
	}
	return w
}

// Algorithm returns "knee".
func (*Knee) Algorithm() string { return KindKnee }

// BaseRTT returns the mean latency without a queue, 0 before it is known. It is
// one atomic load.
func (k *Knee) BaseRTT() time.Duration { return time.Duration(k.departures.base.Load()) }

// Why returns, in one word, why the limit last changed; empty when it never has.
func (k *Knee) Why() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.change.why
}

// State returns the inner state, for operators.
func (k *Knee) State() map[string]float64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.state
	state := map[string]float64{
		"limit":                   s.limit,
		"enforced_limit":          float64(k.Current()),
		"min_limit":               float64(k.o.MinLimit),
		"max_limit":               float64(k.o.MaxLimit),
		"base_rtt_seconds":        s.base / 1e9,
		"throughput":              s.rate * 1e9,
		"refused_share":           s.refused,
		"queue":                   s.queue(k.o),
		"patience_seconds":        s.patience / 1e9,
		"ceiling":                 s.ceiling,
		"draining":                float64(min(s.phase, 1)),
		"sample_rtt_seconds":      k.last.mean() / 1e9,
		"sample_count":            k.last.count() + float64(k.last.dropped),
		"sample_peak_in_flight":   float64(k.last.peak),
		"windows_total":           float64(k.windows),
		"remeasured_total":        float64(s.remeasured),
		"discarded_samples_total": float64(k.discarded.Load()),
	}
	k.change.report(state)
	return state
}

// kneeRow registers the algorithm.
func kneeRow() Row {
	d := KneeOptions{}.withDefaults()
	return Row{
		Name:     KindKnee,
		Keys:     []Key{{"initialLimit", d.InitialLimit}, {"minLimit", d.MinLimit}, {"maxLimit", d.MaxLimit}},
		validate: func(s Settings) error { return s.Knee.Validate() },
		limit: func(s Settings) Limit {
			o := s.Knee
			o.Gates, o.Objective = or(o.Gates, s.gates()), or(o.Objective, s.Objective)
			return NewKnee(o)
		},
	}
}
