package client

import (
	"math"
	"time"
)

// Backoff turns the number of a retry into a wait. Implementations are pure and
// safe for concurrent use, and their result never falls when base or jitter
// rises; [Policy.MaxSleep] relies on that.
type Backoff interface {
	// Delay returns the wait before retry number n, n >= 1. A base > 0 comes
	// from the server and replaces the backoff's own. Jitter is in [0, 1].
	Delay(n int, base time.Duration, jitter float64) time.Duration
}

// Exponential waits jitter * min(Max, Base * 2^(n-1+Shift)) before retry n.
// The zero value never waits.
type Exponential struct {
	Base time.Duration // before doubling, >= 0
	Max  time.Duration // most that one wait can be, before jitter, >= 0
	// Shift is the exponent of the first retry, >= 0: 0 makes it wait up to
	// Base, as the seed has it; 1 makes it wait up to 2*Base, as drivers do.
	Shift int
}

// Delay implements [Backoff].
func (e Exponential) Delay(n int, base time.Duration, jitter float64) time.Duration {
	if base <= 0 {
		base = e.Base
	}
	return scale(grow(base, 2, n-1+e.Shift, e.Max), jitter)
}

// Interval waits min(Max, Initial * Multiplier^(n-1)) + jitter * Jitter before
// retry n. A base from the server replaces Initial. The zero value never waits.
type Interval struct {
	Initial    time.Duration // before the first retry, >= 0
	Multiplier float64       // growth from one retry to the next, >= 1
	Jitter     time.Duration // most that is added at random, >= 0
	Max        time.Duration // most that the interval can be, before jitter, >= 0
}

// Delay implements [Backoff].
func (i Interval) Delay(n int, base time.Duration, jitter float64) time.Duration {
	if base <= 0 {
		base = i.Initial
	}
	return addClamped(grow(base, i.Multiplier, n-1, i.Max), scale(i.Jitter, jitter))
}

// grow returns base * factor^exponent, at most limit. The power is taken in
// floating point, where it becomes infinite instead of wrapping around.
func grow(base time.Duration, factor float64, exponent int, limit time.Duration) time.Duration {
	grown := float64(base) * math.Pow(factor, float64(exponent))
	if !(grown < float64(limit)) { // also when grown is infinite or not a number
		return limit
	}
	return time.Duration(grown)
}

// scale returns d * fraction, with the fraction held to [0, 1].
func scale(d time.Duration, fraction float64) time.Duration {
	switch {
	case !(fraction > 0): // also when it is not a number
		return 0
	case fraction >= 1:
		return d
	}
	return time.Duration(float64(d) * fraction)
}

// addClamped returns a + b for a, b >= 0, or the largest duration when the sum
// does not fit.
func addClamped(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
