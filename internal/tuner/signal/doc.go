// Package signal turns readings of something that was measured elsewhere into
// one value that may be acted upon, or into a reason why it may not.
//
// A [Signal] is fed with readings and failures, and asked for its [Value]: an
// average or a quantile over a window, or the rate of a counter. A value is
// trusted only while readings arrive, are young, are numbers within bounds,
// and behave as the thing measured can. Readings are facts; trust is judged.
//
// The package reads no clock and does no input or output: the time is passed
// in, as nanoseconds of one monotonic clock.
package signal
