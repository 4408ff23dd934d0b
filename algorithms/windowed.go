package algorithms

import (
	"errors"
	"fmt"
	"time"
)

// Limit is what [New] returns: a limit that learns from permits as they end.
type Limit interface {
	Current() int
	Observe(now int64, latency time.Duration, inFlight int, dropped bool)
	Algorithm() string
	BaseRTT() time.Duration
	State() map[string]float64
}

// Settings describes one limit. Only the options of the chosen algorithm
// matter. The zero value is a fixed limit of 20.
type Settings struct {
	Algorithm string // one of the Kind constants; "" = fixed
	Fixed     FixedOptions
	AIMD      AIMDOptions
	Vegas     VegasOptions
	Gradient  GradientOptions
	Gradient2 Gradient2Options
	Knee      KneeOptions
	Window    WindowOptions
}

// Validate reports every value of the chosen algorithm and of the window that
// is out of range.
func (s Settings) Validate() error {
	switch s.Algorithm {
	case "", KindFixed:
		return s.Fixed.Validate()
	case KindAIMD:
		return errors.Join(s.AIMD.Validate(), s.Window.Validate())
	case KindVegas:
		return errors.Join(s.Vegas.Validate(), s.Window.Validate())
	case KindGradient:
		return errors.Join(s.Gradient.Validate(), s.Window.Validate())
	case KindGradient2:
		return errors.Join(s.Gradient2.Validate(), s.Window.Validate())
	case KindKnee:
		return s.Knee.Validate()
	default:
		return fmt.Errorf("algorithms: algorithm must be one of knee, fixed, aimd, vegas, gradient, gradient2 (%s)", s.Algorithm)
	}
}

// New returns the limit that s describes, or what [Settings.Validate] says.
func New(s Settings) (Limit, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	switch s.Algorithm {
	case KindAIMD:
		return NewWindowedAIMD(s.AIMD, s.Window), nil
	case KindVegas:
		return NewWindowedVegas(s.Vegas, s.Window), nil
	case KindGradient:
		return NewWindowedGradient(s.Gradient, s.Window), nil
	case KindGradient2:
		return NewWindowedGradient2(s.Gradient2, s.Window), nil
	case KindKnee:
		return NewKnee(s.Knee), nil
	default:
		return NewFixed(s.Fixed), nil
	}
}

// NewWindowedAIMD returns AIMD behind a window of averages, in which samples
// over the request timeout count as bad.
func NewWindowedAIMD(o AIMDOptions, w WindowOptions) *Window {
	o = o.withDefaults()
	return newWindow(NewAIMD(o), w, form{low: o.MinLimit, high: o.MaxLimit, target: o.RequestTimeout, quantile: -1})
}

// NewWindowedVegas returns Vegas behind a window of averages. A low quantile
// is noisier from window to window than an average, and Vegas, which compares
// with the lowest ever seen, takes that noise for a queue: at 0.6 times the
// capacity it refused 0.5 % of requests on the 10th percentile and none on the
// average.
func NewWindowedVegas(o VegasOptions, w WindowOptions) *Window {
	o = o.withDefaults()
	return newWindow(NewVegas(o), w, form{low: 1, high: o.MaxLimit, quantile: -1})
}

// NewWindowedGradient returns Gradient behind a window of 10th percentiles. Its
// tolerance swallows their noise, and in overload they see the queue where an
// average also sees the service times, so that the limit settles lower.
func NewWindowedGradient(o GradientOptions, w WindowOptions) *Window {
	o = o.withDefaults()
	return newWindow(NewGradient(o), w, form{low: o.MinLimit, high: o.MaxLimit, quantile: 0.1})
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
