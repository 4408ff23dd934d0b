package signal

import "time"

// Distrust is why a signal may not be acted upon. The set is closed.
type Distrust string

// The reasons, and the absence of one.
const (
	Trusted   Distrust = ""          // it may be acted upon
	Never     Distrust = "never"     // nothing was read yet, or too little for a window or a rate
	Failing   Distrust = "failing"   // the source answers with errors
	Slow      Distrust = "slow"      // the source does not answer in time
	Stale     Distrust = "stale"     // the newest reading is too old
	NaN       Distrust = "nan"       // what was read is not a finite number
	Range     Distrust = "range"     // what was read lies outside the bounds of what can be
	Stuck     Distrust = "stuck"     // the reading has not changed for longer than it can stand still
	Backwards Distrust = "backwards" // a counter fell again and again, or time did
	Spike     Distrust = "spike"     // readings jump further than the thing measured can
)

// Reasons lists the reasons for distrust, in the order of the constants.
func Reasons() []Distrust {
	return []Distrust{Never, Failing, Slow, Stale, NaN, Range, Stuck, Backwards, Spike}
}

// Value is what a signal says at one moment.
type Value struct {
	// Value is the last known one, even when it may not be acted upon; 0
	// before anything was read.
	Value float64
	// Distrust is [Trusted], or why nothing may be done because of the value.
	Distrust Distrust
	// Age of the newest reading; 0 before there is one.
	Age time.Duration
	// Detail says more for a person, such as the error of the source.
	Detail string
}

// OK reports whether the value may be acted upon.
func (v Value) OK() bool { return v.Distrust == Trusted }
