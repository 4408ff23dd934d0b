package algorithms

import (
	"errors"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// AIMDOptions configures [AIMD]. The zero value is the default.
type AIMDOptions struct {
	RequestTimeout time.Duration // a slower sample counts as a drop, > 0; 0 = 200 ms
	InitialLimit   int           // in [MinLimit, MaxLimit]; 0 = 20, or the bound nearest to it
	MinLimit       int           // ≥ 1; 0 = 1
	MaxLimit       int           // ≤ 1000000; 0 = 1000
	BackoffRatio   float64       // factor of a cut, in [0.5, 1); 0 = 0.9
}

// Validate reports every value out of range.
func (o AIMDOptions) Validate() error {
	o = o.withDefaults()
	return parts.Check(
		"aimd",
		parts.Positive("requestTimeout", o.RequestTimeout),
		parts.Bounds(o.InitialLimit, o.MinLimit, o.MaxLimit),
		parts.Within("backoffRatio", o.BackoffRatio, "[0.5, 1)", o.BackoffRatio >= 0.5 && o.BackoffRatio < 1),
	)
}

func (o AIMDOptions) withDefaults() AIMDOptions {
	o.RequestTimeout = parts.Or(o.RequestTimeout, 200*time.Millisecond)
	o.MinLimit = parts.Or(o.MinLimit, 1)
	o.MaxLimit = parts.Or(o.MaxLimit, 1000)
	o.InitialLimit = parts.Or(o.InitialLimit, parts.Initial(o.MinLimit, o.MaxLimit))
	o.BackoffRatio = parts.Or(o.BackoffRatio, 0.9)
	return o
}

// AIMD adds one permit per good sample and multiplies by the backoff ratio on
// a bad one: dropped, or slower than the request timeout.
//
// The library's AIMD has no bounds and no timeout, and grows only while in
// flight has reached the limit; this one follows the reference.
type AIMD struct {
	estimate

	o AIMDOptions
}

// NewAIMD returns the formula. Ranges are not checked: see
// [AIMDOptions.Validate].
func NewAIMD(o AIMDOptions) *AIMD {
	a := &AIMD{o: o.withDefaults()}
	a.published.Store(int64(a.o.InitialLimit))
	return a
}

// OnSample implements core.Limit. Times are nanoseconds; a sample with rtt ≤ 0
// is ignored.
func (a *AIMD) OnSample(_, rtt int64, inFlight int, didDrop bool) {
	if rtt <= 0 {
		return
	}
	a.update(func() int { return a.next(a.EstimatedLimit(), rtt, inFlight, didDrop) })
}

// next returns the limit that follows limit.
func (a *AIMD) next(limit int, rtt int64, inFlight int, didDrop bool) int {
	switch {
	case didDrop || rtt > int64(a.o.RequestTimeout):
		limit = int(float64(limit) * a.o.BackoffRatio)
	case inFlight*2 >= limit:
		limit++
	}
	return min(a.o.MaxLimit, max(a.o.MinLimit, limit))
}

// Algorithm returns "aimd".
func (*AIMD) Algorithm() string { return KindAIMD }

// BaseRTT returns 0: AIMD compares with a target, not with a baseline.
func (*AIMD) BaseRTT() time.Duration { return 0 }

// State returns the inner state.
func (a *AIMD) State() map[string]float64 {
	return map[string]float64{
		"limit":              float64(a.EstimatedLimit()),
		"target_rtt_seconds": a.o.RequestTimeout.Seconds(),
	}
}

// NewWindowedAIMD returns AIMD behind a window of averages, in which samples
// over the request timeout count as bad.
func NewWindowedAIMD(o AIMDOptions, w WindowOptions) *Window {
	o = o.withDefaults()
	return newWindow(NewAIMD(o), w, form{low: o.MinLimit, high: o.MaxLimit, target: o.RequestTimeout, quantile: -1})
}

// aimdRow registers the algorithm.
func aimdRow() Row {
	d := AIMDOptions{}.withDefaults()
	return Row{
		Name: KindAIMD,
		Keys: []Key{
			{"requestTimeout", d.RequestTimeout},
			{"initialLimit", d.InitialLimit},
			{"minLimit", d.MinLimit},
			{"maxLimit", d.MaxLimit},
			{"backoffRatio", d.BackoffRatio},
		},
		validate: func(s Settings) error { return errors.Join(aimdOptions(s).Validate(), s.Window.Validate()) },
		limit: func(s Settings) Limit {
			o := aimdOptions(s)
			o.RequestTimeout = parts.Or(o.RequestTimeout, s.Objective*4/5)
			o = o.withDefaults()
			o.InitialLimit, o.MinLimit, o.MaxLimit = s.share(o.InitialLimit), s.share(o.MinLimit), s.share(o.MaxLimit)
			return NewWindowedAIMD(o, s.Window)
		},
	}
}

func aimdOptions(s Settings) AIMDOptions {
	return AIMDOptions{
		RequestTimeout: s.RequestTimeout, InitialLimit: s.InitialLimit,
		MinLimit: s.MinLimit, MaxLimit: s.MaxLimit, BackoffRatio: s.BackoffRatio,
	}
}
