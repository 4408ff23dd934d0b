package clock

import (
	"fmt"
	"time"
)

// State is how much a clock is trusted.
type State uint8

// The states. The zero value is Good.
const (
	Good    State = iota
	Suspect       // something is odd; visible, without consequence
	Bad           // intervals mean nothing; adaptive limits are fixed
)

// String returns good, suspect or bad.
func (s State) String() string {
	switch s {
	case Suspect:
		return "suspect"
	case Bad:
		return "bad"
	default:
		return "good"
	}
}

// Mode is what an operator wants of the guard.
type Mode uint32

// The modes. The zero value is Auto.
const (
	Auto  Mode = iota // trust the clock unless it is bad
	Fixed             // never trust it: every adaptive limit is fixed
	Off               // always trust it
)

// ParseMode reads auto, fixed or off; the empty string is auto.
func ParseMode(text string) (Mode, error) {
	switch text {
	case "", "auto":
		return Auto, nil
	case "fixed":
		return Fixed, nil
	case "off":
		return Off, nil
	default:
		return Auto, fmt.Errorf("clock: mode must be auto, fixed or off (%s)", text)
	}
}

// String returns the mode as the configuration spells it.
func (m Mode) String() string {
	switch m {
	case Fixed:
		return "fixed"
	case Off:
		return "off"
	default:
		return "auto"
	}
}

// Reason is what speaks against a clock, or an event that breaks intervals
// without making it worse. The set is closed, so that it can be a label.
type Reason string

// Reasons for a state.
const (
	Decreasing    Reason = "decreasing"     // a reading below an earlier one
	Stopped       Reason = "stopped"        // no movement while other clocks went on
	Jumped        Reason = "jumped"         // more movement than other clocks saw
	Coarse        Reason = "coarse"         // steps too wide for what is measured
	Equal         Reason = "equal"          // most readings equal the one before
	SlowRead      Reason = "slow_read"      // reading costs more than 500 ns
	PoorSource    Reason = "poor_source"    // the kernel uses hardware that is not fit
	SourceChanged Reason = "source_changed" // the kernel switched hardware
	BadSamples    Reason = "bad_samples"    // too many impossible latencies
)

// Events, which are counted and change no state.
const (
	Paused    Reason = "paused"    // the process stood still; begins a new epoch
	Suspended Reason = "suspended" // the machine was suspended; begins a new epoch
	WallStep  Reason = "wall_step" // the time of day was set
)

// Reasons returns every reason and event, for those who count them.
func Reasons() []Reason {
	return []Reason{
		Decreasing, Stopped, Jumped, Coarse, Equal, SlowRead, PoorSource, SourceChanged, BadSamples,
		Paused, Suspended, WallStep,
	}
}

// Status is a snapshot of a [Guard].
type Status struct {
	State   State
	Mode    Mode
	Trusted bool
	Reason  Reason            // of the state; "" while good
	Since   time.Time         // when the state began
	Source  string            // name of the hardware, "" when unknown
	Epoch   uint32            // pauses, suspensions and jumps so far
	Counts  map[Reason]uint64 // by reason and event, since the start; those not seen are absent
	Samples uint64            // samples that gates reported
	Bad     uint64            // of these, impossible ones
}
