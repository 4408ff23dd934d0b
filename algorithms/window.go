package algorithms

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/platinummonkey/go-concurrency-limits/core"

	"github.com/admitd/admitd/algorithms/parts"
)

// WindowOptions says when a window is ready. The zero value is the default.
type WindowOptions struct {
	// Min and Max bound the time a window gathers: twice the latency of the
	// window before, within these bounds. In [1 ms, 1 h]; 0 = 1 s.
	Min, Max time.Duration
	// Samples is how many it needs, in [1, 100000]; 0 = 10. A window that has
	// fewer goes on gathering, unless most of what it has are drops.
	Samples int
	// DropFraction is the share of bad samples, dropped or slower than AIMD's
	// request timeout, above which the formula is told of a drop. In (0, 1);
	// 0 = 0.05.
	DropFraction float64
	// Quantile is what the formula sees of the latencies: in (0, 1) that
	// quantile, negative the average, 0 the algorithm's own choice.
	Quantile float64
}

// Validate reports every value out of range.
func (o WindowOptions) Validate() error {
	o = o.withDefaults()
	return parts.Check(
		"window",
		parts.Between("min", o.Min, time.Millisecond, time.Hour),
		parts.Between("max", o.Max, o.Min, time.Hour),
		parts.InRange("samples", o.Samples, 1, 100_000),
		parts.Within("dropFraction", o.DropFraction, "(0, 1)", o.DropFraction > 0 && o.DropFraction < 1),
		parts.Within("quantile", o.Quantile, "(0, 1) or negative", o.Quantile < 1),
	)
}

func (o WindowOptions) withDefaults() WindowOptions {
	o.Min = parts.Or(o.Min, time.Second)
	o.Max = parts.Or(o.Max, max(time.Second, o.Min))
	o.Samples = parts.Or(o.Samples, 10)
	o.DropFraction = parts.Or(o.DropFraction, 0.05)
	return o
}

// form is what a window needs to know of the algorithm it feeds.
type form struct {
	low, high   int           // clamp
	target      time.Duration // slower samples are bad; 0 = none
	quantile    float64       // the algorithm's own choice; negative = average
	ignoresDrop bool          // the formula takes no notice of drops
	peak        bool          // the formula is told of the peak of permits in flight, always
	noise       *noise        // told of every window's latency; nil = nobody asks
}

// Window feeds a formula from live traffic and publishes its limit. It is safe
// for concurrent use. [Window.Observe] takes no lock and allocates nothing;
// the caller whose sample makes the window ready closes it.
//
// The rules that the formulas leave open:
//
//   - A drop counts as a sample, and its latency is left out of the statistic,
//     so that a fast refusal does not pass for a fast backend.
//   - A window is bad when the share of bad samples passes DropFraction, not
//     because of any single one.
//   - After a cut, bad news of permits granted before it is old news.
//   - A formula that ignores drops is held down by a ceiling that bad windows
//     lower and good ones raise.
//   - A limit that was not reached in a window is not needed, and the formula
//     is told of the permits held on average; where it was reached, of the peak.
//   - Drops that stay as many however far the limit has come down have another
//     cause, and no longer hold it down.
//   - Where requests are refused and nothing waits, the limit grows by a share
//     of itself.
//   - A limit that shrinks while latency stays where it is and throughput
//     falls is cutting into work, not into a queue: the baseline is measured
//     anew, or, where the formula has none but a target, the cutting ends.
type Window struct {
	published
	windowSamples

	limit core.Limit
	o     WindowOptions
	form  form

	mu         sync.Mutex // guards the fields below; taken only by TryLock on the request path
	demand     parts.Demand
	started    bool
	last       summary
	dropCap    dropCap
	floor      floor
	plateau    plateau
	background background // drops that the limit has no part in
	change     parts.Change
	windows    uint64
	faults     uint64
}

// published is what every request and every sample reads.
type published struct {
	current atomic.Int64 // the limit
	start   atomic.Int64 // when this window began
	span    atomic.Int64 // how long it gathers at least
	cut     atomic.Int64 // when bad news last lowered the limit
	_       [32]byte     // keeps what every sample writes off the line that every request reads
}

// NewWindow feeds any core.Limit, whose limit is enforced within [1, 1000000].
// The formulas of this package have constructors of their own, which know more
// about them. Ranges are not checked: see [WindowOptions.Validate].
func NewWindow(limit core.Limit, o WindowOptions) *Window {
	return newWindow(limit, o, form{low: 1, high: parts.MaxLimit, quantile: -1, peak: true})
}

func newWindow(limit core.Limit, o WindowOptions, f form) *Window {
	w := &Window{limit: limit, o: o.withDefaults(), form: f}
	w.form.low = max(1, f.low)
	if w.form.target <= 0 {
		w.form.target = math.MaxInt64
	}
	w.form.high = max(w.form.low, f.high)
	w.o.Quantile = parts.Or(o.Quantile, f.quantile)
	if w.o.Quantile > 0 {
		w.bins = new(histogram)
		w.counts = new([binCount]uint32)
	}
	w.start.Store(math.MinInt64) // far back, so that the first sample opens a window
	w.span.Store(int64(w.o.Min))
	w.cut.Store(math.MinInt64)
	w.current.Store(int64(w.clamp(limit.EstimatedLimit())))
	return w
}

// Current returns the limit, within the bounds of the algorithm and at least
// 1. It is one atomic load.
func (w *Window) Current() int { return int(w.current.Load()) }

// Observe adds the sample of a permit that ended at now, monotonic
// nanoseconds, after latency. inFlight are the permits held when it was
// granted, itself included. A sample that cannot be true (latency ≤ 0 or over
// a minute, inFlight < 1) is counted and discarded; of a drop the latency does
// not matter.
func (w *Window) Observe(now int64, latency time.Duration, inFlight int, dropped bool) {
	if !parts.Possible(latency, inFlight, dropped) {
		w.discarded.Add(1)
		return
	}
	w.meet(int64(inFlight))
	var full bool
	if dropped || latency > w.form.target {
		full = w.addBad(now, latency, dropped, w.cut.Load())
	} else {
		full = w.add(latency)
	}
	// Unsigned, so that a clock that went back closes the window too.
	if full || uint64(now-w.start.Load()) >= uint64(w.span.Load()) {
		w.tryClose(now, full)
	}
}

// baseRTT returns the formula's baseline in nanoseconds, 0 when it has none.
func (w *Window) baseRTT() float64 { return float64(w.BaseRTT()) }

// Algorithm returns the formula's name, "unknown" when it has none.
func (w *Window) Algorithm() string {
	if f, ok := w.limit.(interface{ Algorithm() string }); ok {
		return f.Algorithm()
	}
	return "unknown"
}

// BaseRTT returns the formula's idea of the latency without load, 0 when it
// has none yet or never has.
func (w *Window) BaseRTT() time.Duration {
	if f, ok := w.limit.(interface{ BaseRTT() time.Duration }); ok {
		return f.BaseRTT()
	}
	return 0
}

// Watch tells the limit where to read how many requests were offered to its
// partition and how many of them it refused for want of a permit, both counted
// since the beginning. Call it before the first sample, at most once.
func (w *Window) Watch(demand func() (offered, refused uint64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.demand.Watch(demand)
}

// Why returns why the limit last changed, one of [Whys]; empty when it never has.
func (w *Window) Why() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.change.Why
}

// State returns the formula's inner state and the window's, for operators.
func (w *Window) State() map[string]float64 {
	state := map[string]float64{}
	if f, ok := w.limit.(interface{ State() map[string]float64 }); ok {
		state = f.State()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	state["enforced_limit"] = float64(w.Current())
	state["min_limit"] = float64(w.form.low)
	state["max_limit"] = float64(w.form.high)
	state["ceiling"] = w.dropCap.ceiling
	state["floor"] = w.floor.limit
	state["sample_rtt_seconds"] = w.last.rtt / 1e9
	state["sample_count"] = float64(w.last.total())
	state["sample_bad_fraction"] = w.last.badFraction()
	state["sample_peak_in_flight"] = float64(w.last.peak)
	state["windows_total"] = float64(w.windows)
	state["remeasured_total"] = float64(w.plateau.found)
	state["faults_total"] = float64(w.faults)
	state["stale_samples_total"] = float64(w.stale.Load())
	state["discarded_samples_total"] = float64(w.discarded.Load())
	state["impatient_departures_total"] = float64(w.impatient.Load())
	state["tolerated_drop_fraction"] = w.background.tolerated
	w.change.Report(state)
	return state
}
