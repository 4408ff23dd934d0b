package algorithms

import (
	"errors"
	"math"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// GradientOptions configures [Gradient]. The zero value is the default.
type GradientOptions struct {
	InitialLimit int     // in [MinLimit, MaxLimit]; 0 = 20, or the bound nearest to it
	MinLimit     int     // ≥ 1; 0 = 1
	MaxLimit     int     // ≤ 1000000; 0 = 1000
	RTTTolerance float64 // how many times the baseline is acceptable, ≥ 1; 0 = 2

	Smoothing    float64             // weight of a lower limit, in (0, 1]; 0 = 0.2
	BackoffRatio float64             // factor on a drop, in [0.5, 1]; 0 = 0.9
	QueueSize    func(limit int) int // growth per sample; nil = max(4, sqrt(limit))

	// ProbeInterval sets how often the baseline is measured anew: every 1 to 2
	// times ProbeInterval samples. 0 = 1000, negative = never.
	ProbeInterval int
	// Rand is the source of the probes' jitter; nil = the process's own. It is
	// called by one goroutine at a time.
	Rand func() uint64
}

// Validate reports every value out of range.
func (o GradientOptions) Validate() error {
	o = o.withDefaults()
	return parts.Check(
		"gradient",
		parts.Bounds(o.InitialLimit, o.MinLimit, o.MaxLimit),
		parts.Within("rttTolerance", o.RTTTolerance, "[1, 1000]", o.RTTTolerance >= 1 && o.RTTTolerance <= 1000),
		parts.Within("smoothing", o.Smoothing, "(0, 1]", o.Smoothing > 0 && o.Smoothing <= 1),
		parts.Within("backoffRatio", o.BackoffRatio, "[0.5, 1]", o.BackoffRatio >= 0.5 && o.BackoffRatio <= 1),
	)
}

func (o GradientOptions) withDefaults() GradientOptions {
	o.MinLimit = parts.Or(o.MinLimit, 1)
	o.MaxLimit = parts.Or(o.MaxLimit, 1000)
	o.InitialLimit = parts.Or(o.InitialLimit, parts.Initial(o.MinLimit, o.MaxLimit))
	o.RTTTolerance = parts.Or(o.RTTTolerance, 2)
	o.Smoothing = parts.Or(o.Smoothing, 0.2)
	o.BackoffRatio = parts.Or(o.BackoffRatio, 0.9)
	o.ProbeInterval = parts.Or(o.ProbeInterval, 1000)
	if o.QueueSize == nil {
		o.QueueSize = func(limit int) int { return max(4, Sqrt(limit)) }
	}
	o.Rand = randomOr(o.Rand)
	return o
}

// Gradient multiplies the limit by tolerance * baseline / rtt, within
// [0.5, 1], and adds room for a queue. The baseline is the lowest rtt since
// the last probe.
//
// The library's Gradient halves the limit on a drop where the reference
// multiplies by 0.9, and draws its jitter where a test cannot reach.
type Gradient struct {
	estimate

	o GradientOptions

	limit     float64 // guarded by estimate.mu, as all below
	baseline  float64 // ns, 0 = unknown
	countdown int
	gradient  float64
}

// NewGradient returns the formula. Ranges are not checked: see
// [GradientOptions.Validate].
func NewGradient(o GradientOptions) *Gradient {
	g := &Gradient{o: o.withDefaults(), gradient: 1}
	g.limit = float64(g.o.InitialLimit)
	g.published.Store(int64(g.o.InitialLimit))
	g.resetProbe()
	return g
}

// resetProbe starts the count to the next probe.
func (g *Gradient) resetProbe() {
	if n := g.o.ProbeInterval; n > 0 {
		g.countdown = n + int(g.o.Rand()%uint64(n))
	}
}

// OnSample implements core.Limit. Times are nanoseconds; a sample with rtt ≤ 0
// is ignored.
func (g *Gradient) OnSample(_, rtt int64, inFlight int, didDrop bool) {
	if rtt <= 0 {
		return
	}
	g.update(func() int {
		g.sampleLocked(float64(rtt), inFlight, didDrop)
		return int(g.limit)
	})
}

// sampleLocked probes or moves the limit.
func (g *Gradient) sampleLocked(rtt float64, inFlight int, didDrop bool) {
	queue := float64(g.o.QueueSize(int(g.limit)))
	if g.o.ProbeInterval > 0 {
		if g.countdown <= 0 {
			g.probeLocked(queue)
			return
		}
		g.countdown--
	}
	if g.baseline == 0 || rtt < g.baseline {
		g.baseline = rtt
	}
	g.gradient = math.Max(0.5, math.Min(1, g.o.RTTTolerance*g.baseline/rtt))

	var fresh float64
	switch {
	case didDrop:
		fresh = g.limit * g.o.BackoffRatio
	case float64(inFlight) < g.limit/2:
		return
	default:
		fresh = float64(g.limit*g.gradient) + queue
	}
	if fresh < g.limit {
		fresh = math.Max(float64(g.o.MinLimit), mix(g.limit, fresh, g.o.Smoothing))
	}
	// The queue has the last word in the published formula, even over the
	// maximum. The window's clamp keeps what is enforced within the bounds.
	g.limit = math.Max(queue, math.Min(float64(g.o.MaxLimit), fresh))
}

// probeLocked forgets the baseline and lowers the limit, so that the next
// baseline is not measured under load.
func (g *Gradient) probeLocked(queue float64) {
	g.resetProbe()
	g.limit = math.Max(float64(g.o.MinLimit), queue)
	g.baseline = 0
}

// Remeasure probes now: it forgets the baseline and lowers the limit to its
// minimum, so that the next sample can set the baseline without a queue.
func (g *Gradient) Remeasure() {
	g.update(func() int {
		g.probeLocked(float64(g.o.QueueSize(int(g.limit))))
		return int(g.limit)
	})
}

// Algorithm returns "gradient".
func (*Gradient) Algorithm() string { return KindGradient }

// BaseRTT returns the lowest rtt since the last probe, 0 before the first
// sample.
func (g *Gradient) BaseRTT() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Duration(g.baseline)
}

// State returns the inner state.
func (g *Gradient) State() map[string]float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return map[string]float64{
		"limit":            g.limit,
		"base_rtt_seconds": g.baseline / 1e9,
		"gradient":         g.gradient,
	}
}

// NewWindowedGradient returns Gradient behind a window of 10th percentiles. Its
// tolerance swallows their noise, and in overload they see the queue where an
// average also sees the service times, so that the limit settles lower.
func NewWindowedGradient(o GradientOptions, w WindowOptions) *Window {
	o = o.withDefaults()
	return newWindow(NewGradient(o), w, form{low: o.MinLimit, high: o.MaxLimit, quantile: 0.1})
}

// gradientRow registers the algorithm.
func gradientRow() Row {
	d := GradientOptions{}.withDefaults()
	return Row{
		Name: KindGradient,
		Keys: []Key{
			{"initialLimit", d.InitialLimit},
			{"minLimit", d.MinLimit},
			{"maxLimit", d.MaxLimit},
			{"rttTolerance", d.RTTTolerance},
		},
		validate: func(s Settings) error { return errors.Join(gradientOptions(s).Validate(), s.Window.Validate()) },
		limit: func(s Settings) Limit {
			o := gradientOptions(s).withDefaults()
			o.InitialLimit, o.MinLimit, o.MaxLimit = s.share(o.InitialLimit), s.share(o.MinLimit), s.share(o.MaxLimit)
			whole := o.QueueSize
			o.QueueSize = func(limit int) int { return s.share(whole(limit * s.gates())) }
			return NewWindowedGradient(o, s.Window)
		},
	}
}

func gradientOptions(s Settings) GradientOptions {
	return GradientOptions{
		InitialLimit: s.InitialLimit, MinLimit: s.MinLimit, MaxLimit: s.MaxLimit, RTTTolerance: s.RTTTolerance, Rand: s.Rand,
	}
}
