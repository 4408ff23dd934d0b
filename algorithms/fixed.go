package algorithms

import (
	"time"

	"github.com/platinummonkey/go-concurrency-limits/limit"

	"github.com/admitd/admitd/algorithms/parts"
)

// FixedOptions configures [Fixed]. The zero value is the default.
type FixedOptions struct {
	Limit int // permits, in [1, 1000000]; 0 = 20
}

// Validate reports every value out of range.
func (o FixedOptions) Validate() error {
	o = o.withDefaults()
	return parts.Check("fixed", parts.InRange("limit", o.Limit, 1, parts.MaxLimit))
}

func (o FixedOptions) withDefaults() FixedOptions {
	o.Limit = parts.Or(o.Limit, 20)
	return o
}

// Fixed never changes. It needs no window: it is a formula and a limit at once.
type Fixed struct {
	*limit.FixedLimit
}

// NewFixed returns a fixed limit, at least 1.
func NewFixed(o FixedOptions) *Fixed {
	return &Fixed{FixedLimit: limit.NewFixedLimit("", max(1, o.withDefaults().Limit), nil)}
}

// Current returns the limit.
func (f *Fixed) Current() int { return f.EstimatedLimit() }

// Observe ignores the sample.
func (*Fixed) Observe(int64, time.Duration, int, bool) {}

// Algorithm returns "fixed".
func (*Fixed) Algorithm() string { return KindFixed }

// BaseRTT returns 0: a fixed limit has no idea.
func (*Fixed) BaseRTT() time.Duration { return 0 }

// State returns the limit.
func (f *Fixed) State() map[string]float64 {
	return map[string]float64{"limit": float64(f.EstimatedLimit())}
}

// fixedRow registers the algorithm.
func fixedRow() Row {
	d := FixedOptions{}.withDefaults()
	return Row{
		Name:     KindFixed,
		Keys:     []Key{{"limit", d.Limit}},
		validate: func(s Settings) error { return FixedOptions{Limit: s.Limit}.Validate() },
		limit: func(s Settings) Limit {
			return NewFixed(FixedOptions{Limit: s.share(parts.Or(s.Limit, d.Limit))})
		},
	}
}
