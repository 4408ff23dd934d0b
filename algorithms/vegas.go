package algorithms

import (
	"errors"
	"math"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// VegasOptions configures [Vegas]. The zero value is the default.
type VegasOptions struct {
	Alpha        int // queue below which the limit grows, ≥ 1; 0 = 3
	Beta         int // queue above which it shrinks, > Alpha; 0 = 6
	InitialLimit int // in [1, MaxLimit]; 0 = 20, or the bound nearest to it
	MaxLimit     int // ≤ 1000000; 0 = 1000

	// AlphaFunc, BetaFunc and ThresholdFunc compute the thresholds from the
	// limit; nil = Alpha, Beta and [Log10]. At or below the threshold the
	// limit grows by beta.
	AlphaFunc, BetaFunc, ThresholdFunc func(limit int) int
	Smoothing                          float64 // weight of a new limit, in (0, 1]; 0 = 1

	// ProbeMultiplier sets how often the baseline is measured anew: every 0.5
	// to 1 times ProbeMultiplier * limit samples. 0 = 30, negative = never.
	ProbeMultiplier int
	// Rand is the source of the probes' jitter; nil = the process's own. It is
	// called by one goroutine at a time.
	Rand func() uint64
}

// Validate reports every value out of range.
func (o VegasOptions) Validate() error {
	o = o.withDefaults()
	return parts.Check(
		"vegas",
		parts.InRange("alpha", o.Alpha, 1, parts.MaxLimit),
		parts.InRange("beta", o.Beta, o.Alpha+1, parts.MaxLimit),
		parts.Bounds(o.InitialLimit, 1, o.MaxLimit),
		parts.Within("smoothing", o.Smoothing, "(0, 1]", o.Smoothing > 0 && o.Smoothing <= 1),
	)
}

func (o VegasOptions) withDefaults() VegasOptions {
	o.Alpha = parts.Or(o.Alpha, 3)
	o.Beta = parts.Or(o.Beta, 6)
	o.MaxLimit = parts.Or(o.MaxLimit, 1000)
	o.InitialLimit = parts.Or(o.InitialLimit, parts.Initial(1, o.MaxLimit))
	o.Smoothing = parts.Or(o.Smoothing, 1)
	o.ProbeMultiplier = parts.Or(o.ProbeMultiplier, 30)
	if o.AlphaFunc == nil {
		o.AlphaFunc = constant(o.Alpha)
	}
	if o.BetaFunc == nil {
		o.BetaFunc = constant(o.Beta)
	}
	if o.ThresholdFunc == nil {
		o.ThresholdFunc = Log10
	}
	o.Rand = randomOr(o.Rand)
	return o
}

// Vegas estimates the backend's queue as limit * (1 - baseline/rtt) and keeps
// it between alpha and beta.
//
// The library's Vegas compares the queue with the threshold strictly, so that
// below a limit of 100 it grows fast only when rtt equals the baseline
// exactly, and it draws its jitter where a test cannot reach.
type Vegas struct {
	estimate

	o VegasOptions

	limit      float64 // guarded by estimate.mu, as all below
	baseline   int64   // ns, 0 = unknown
	probeCount int
	jitter     float64
	queue      int
}

// NewVegas returns the formula. Ranges are not checked: see
// [VegasOptions.Validate].
func NewVegas(o VegasOptions) *Vegas {
	v := &Vegas{o: o.withDefaults()}
	v.limit = float64(v.o.InitialLimit)
	v.published.Store(int64(v.o.InitialLimit))
	v.resetProbe()
	return v
}

// resetProbe starts the count to the next probe.
func (v *Vegas) resetProbe() {
	v.probeCount = 0
	v.jitter = 0.5 + fraction(v.o.Rand)/2
}

// OnSample implements core.Limit. Times are nanoseconds; a sample with rtt ≤ 0
// is ignored.
func (v *Vegas) OnSample(_, rtt int64, inFlight int, didDrop bool) {
	if rtt <= 0 {
		return
	}
	v.update(func() int {
		v.sampleLocked(rtt, inFlight, didDrop)
		return int(v.limit)
	})
}

// sampleLocked takes the sample for a baseline or moves the limit.
func (v *Vegas) sampleLocked(rtt int64, inFlight int, didDrop bool) {
	v.probeCount++
	if v.o.ProbeMultiplier > 0 && v.jitter*float64(v.o.ProbeMultiplier)*v.limit <= float64(v.probeCount) {
		v.resetProbe()
		v.baseline = rtt
		return
	}
	if v.baseline == 0 || rtt < v.baseline {
		v.baseline = rtt
		return
	}
	if fresh, ok := v.nextLocked(rtt, inFlight, didDrop); ok {
		fresh = math.Max(1, math.Min(float64(v.o.MaxLimit), fresh))
		v.limit = mix(v.limit, fresh, v.o.Smoothing)
	}
}

// nextLocked returns the limit that the sample asks for; ok is false when it
// asks for no change.
func (v *Vegas) nextLocked(rtt int64, inFlight int, didDrop bool) (fresh float64, ok bool) {
	whole := int(v.limit)
	v.queue = int(math.Ceil(v.limit * (1 - float64(v.baseline)/float64(rtt))))
	switch {
	case didDrop:
		return v.limit - float64(Log10(whole)), true
	case float64(inFlight*2) < v.limit:
		return 0, false
	case v.queue <= v.o.ThresholdFunc(whole):
		return v.limit + float64(v.o.BetaFunc(whole)), true
	case v.queue < v.o.AlphaFunc(whole):
		return v.limit + float64(Log10(whole)), true
	case v.queue > v.o.BetaFunc(whole):
		return v.limit - float64(Log10(whole)), true
	default:
		return 0, false
	}
}

// Raise lifts the limit to at least limit, within its bounds.
func (v *Vegas) Raise(limit int) {
	v.update(func() int {
		v.limit = math.Max(v.limit, math.Min(float64(limit), float64(v.o.MaxLimit)))
		return int(v.limit)
	})
}

// Remeasure forgets the baseline, as a probe does: the next sample sets it.
func (v *Vegas) Remeasure() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.resetProbe()
	v.baseline = 0
}

// Algorithm returns "vegas".
func (*Vegas) Algorithm() string { return KindVegas }

// BaseRTT returns the lowest rtt since the last probe, 0 before the first
// sample.
func (v *Vegas) BaseRTT() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return time.Duration(v.baseline)
}

// State returns the inner state.
func (v *Vegas) State() map[string]float64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return map[string]float64{
		"limit":            v.limit,
		"base_rtt_seconds": time.Duration(v.baseline).Seconds(),
		"queue":            float64(v.queue),
	}
}

// NewWindowedVegas returns Vegas behind a window of averages. A low quantile
// is noisier from window to window than an average: at 0.6 times the capacity it
// refused 0.5 % of requests on the 10th percentile and none on the average. The
// average is noisy too, and the baseline is the lowest ever seen, so that a limit
// which makes the noise of a window as large as alpha would never grow: 64
// workers of 100 ms were left with half their capacity. Alpha and beta, unless
// they are given as functions, are therefore never less than what two standard
// errors of a window look like.
func NewWindowedVegas(o VegasOptions, w WindowOptions) *Window {
	given := o
	o = o.withDefaults()
	n := new(noise)
	if given.AlphaFunc == nil {
		o.AlphaFunc = func(limit int) int { return max(o.Alpha, n.queue(limit)) }
	}
	if given.BetaFunc == nil {
		o.BetaFunc = func(limit int) int { return max(o.Beta, n.queue(limit)+o.Beta-o.Alpha) }
	}
	return newWindow(NewVegas(o), w, form{low: 1, high: o.MaxLimit, quantile: -1, noise: n})
}

// vegasRow registers the algorithm.
func vegasRow() Row {
	d := VegasOptions{}.withDefaults()
	return Row{
		Name: KindVegas,
		Keys: []Key{
			{"alpha", d.Alpha}, {"beta", d.Beta}, {"initialLimit", d.InitialLimit}, {"maxLimit", d.MaxLimit},
		},
		validate: func(s Settings) error { return errors.Join(vegasOptions(s).Validate(), s.Window.Validate()) },
		limit: func(s Settings) Limit {
			o, all := vegasOptions(s), vegasOptions(s).withDefaults()
			o.Alpha, o.Beta = s.share(all.Alpha), s.share(all.Beta)
			o.Beta = max(o.Beta, o.Alpha+1)
			o.InitialLimit, o.MaxLimit = s.share(all.InitialLimit), s.share(all.MaxLimit)
			return NewWindowedVegas(o, s.Window)
		},
	}
}

func vegasOptions(s Settings) VegasOptions {
	return VegasOptions{Alpha: s.Alpha, Beta: s.Beta, InitialLimit: s.InitialLimit, MaxLimit: s.MaxLimit, Rand: s.Rand}
}
