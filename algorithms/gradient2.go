package algorithms

import (
	"errors"
	"math"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// warmup is how many samples Gradient2 averages plainly before it decays.
const warmup = 10

// Gradient2Options configures [Gradient2]. The zero value is the default.
type Gradient2Options struct {
	InitialLimit int     // in [MinLimit, MaxLimit]; 0 = 20, or the bound nearest to it
	MinLimit     int     // ≥ 1; 0 = 1
	MaxLimit     int     // ≤ 1000000; 0 = 200
	RTTTolerance float64 // how many times the long average is acceptable, ≥ 1; 0 = 2
	LongWindow   int     // samples in the long average, in [1, 1000000]; 0 = 600

	Smoothing float64             // weight of a new limit, in (0, 1]; 0 = 0.2
	QueueSize func(limit int) int // growth per sample before smoothing; nil = 4
}

// Validate reports every value out of range.
func (o Gradient2Options) Validate() error {
	o = o.withDefaults()
	return parts.Check(
		"gradient2",
		parts.Bounds(o.InitialLimit, o.MinLimit, o.MaxLimit),
		parts.Within("rttTolerance", o.RTTTolerance, "[1, 1000]", o.RTTTolerance >= 1 && o.RTTTolerance <= 1000),
		parts.InRange("longWindow", o.LongWindow, 1, 1_000_000),
		parts.Within("smoothing", o.Smoothing, "(0, 1]", o.Smoothing > 0 && o.Smoothing <= 1),
	)
}

func (o Gradient2Options) withDefaults() Gradient2Options {
	o.MinLimit = parts.Or(o.MinLimit, 1)
	o.MaxLimit = parts.Or(o.MaxLimit, 200)
	o.InitialLimit = parts.Or(o.InitialLimit, parts.Initial(o.MinLimit, o.MaxLimit))
	o.RTTTolerance = parts.Or(o.RTTTolerance, 2)
	o.LongWindow = parts.Or(o.LongWindow, 600)
	o.Smoothing = parts.Or(o.Smoothing, 0.2)
	if o.QueueSize == nil {
		o.QueueSize = constant(4)
	}
	return o
}

// Gradient2 multiplies the limit by tolerance * long average / rtt, within
// [0.5, 1], adds room for a queue, and smooths. The formula takes no notice of
// drops; the [Window] does that for it.
//
// The library's Gradient2 has no tolerance, decays its average by 0.9 where
// the reference has 0.95, and one rtt of 0 makes it NaN for ever.
type Gradient2 struct {
	estimate

	o Gradient2Options

	limit    float64 // guarded by estimate.mu, as all below
	long     float64 // ns, 0 = unknown
	sum      float64 // ns, while count < warmup
	count    int
	gradient float64
}

// NewGradient2 returns the formula. Ranges are not checked: see
// [Gradient2Options.Validate].
func NewGradient2(o Gradient2Options) *Gradient2 {
	g := &Gradient2{o: o.withDefaults(), gradient: 1}
	g.limit = float64(g.o.InitialLimit)
	g.published.Store(int64(g.o.InitialLimit))
	return g
}

// OnSample implements core.Limit. Times are nanoseconds; a sample with rtt ≤ 0
// is ignored, and so is didDrop.
func (g *Gradient2) OnSample(_, rtt int64, inFlight int, _ bool) {
	if rtt <= 0 {
		return
	}
	g.update(func() int {
		g.sampleLocked(float64(rtt), inFlight)
		return int(g.limit)
	})
}

// sampleLocked updates the long average and moves the limit.
func (g *Gradient2) sampleLocked(rtt float64, inFlight int) {
	long := g.averageLocked(rtt)
	if long/rtt > 2 {
		// Latency came back to normal: do not wait for the average to notice.
		g.long = long * 0.95
	}
	if float64(inFlight) < g.limit/2 {
		return
	}
	queue := float64(g.o.QueueSize(int(g.limit)))
	g.gradient = math.Max(0.5, math.Min(1, g.o.RTTTolerance*long/rtt))
	fresh := mix(g.limit, float64(g.limit*g.gradient)+queue, g.o.Smoothing)
	g.limit = math.Max(float64(g.o.MinLimit), math.Min(float64(g.o.MaxLimit), fresh))
}

// averageLocked adds rtt to the long average and returns it.
func (g *Gradient2) averageLocked(rtt float64) float64 {
	if g.count < warmup {
		g.count++
		g.sum += rtt
		g.long = g.sum / float64(g.count)
	} else {
		g.long = mix(g.long, rtt, 2/float64(g.o.LongWindow+1))
	}
	return g.long
}

// Remeasure forgets the long average: the next samples set it.
func (g *Gradient2) Remeasure() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.long, g.sum, g.count = 0, 0, 0
}

// Algorithm returns "gradient2".
func (*Gradient2) Algorithm() string { return KindGradient2 }

// BaseRTT returns the long average, 0 before the first sample.
func (g *Gradient2) BaseRTT() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Duration(g.long)
}

// State returns the inner state.
func (g *Gradient2) State() map[string]float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return map[string]float64{
		"limit":            g.limit,
		"base_rtt_seconds": g.long / 1e9,
		"gradient":         g.gradient,
	}
}

// NewWindowedGradient2 returns Gradient2 behind a window of averages, with a
// ceiling that stands in for the formula's blindness to drops. It grows on the
// peak of a window: at less than one permit a second it cannot make up in time
// for a limit that turns out to be needed. With the average its share of a
// brown-out rose from 0.33 to 0.44, and false refusals after 40 ms more of
// latency from 0.2 % to 1.7 %.
func NewWindowedGradient2(o Gradient2Options, w WindowOptions) *Window {
	o = o.withDefaults()
	return newWindow(NewGradient2(o), w, form{low: o.MinLimit, high: o.MaxLimit, quantile: -1, ignoresDrop: true, peak: true})
}

// gradient2Row registers the algorithm.
func gradient2Row() Row {
	d := Gradient2Options{}.withDefaults()
	return Row{
		Name: KindGradient2,
		Keys: []Key{
			{"initialLimit", d.InitialLimit},
			{"minLimit", d.MinLimit},
			{"maxLimit", d.MaxLimit},
			{"rttTolerance", d.RTTTolerance},
			{"longWindow", d.LongWindow},
		},
		validate: func(s Settings) error { return errors.Join(gradient2Options(s).Validate(), s.Window.Validate()) },
		limit: func(s Settings) Limit {
			o := gradient2Options(s).withDefaults()
			o.InitialLimit, o.MinLimit, o.MaxLimit = s.share(o.InitialLimit), s.share(o.MinLimit), s.share(o.MaxLimit)
			whole := o.QueueSize
			o.QueueSize = func(limit int) int { return s.share(whole(limit * s.gates())) }
			return NewWindowedGradient2(o, s.Window)
		},
	}
}

func gradient2Options(s Settings) Gradient2Options {
	return Gradient2Options{
		InitialLimit: s.InitialLimit, MinLimit: s.MinLimit, MaxLimit: s.MaxLimit,
		RTTTolerance: s.RTTTolerance, LongWindow: s.LongWindow,
	}
}
