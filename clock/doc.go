// Package clock reads monotonic time and watches whether it can be trusted.
//
// A [Guard] is the clock of every gate. Its readings are the runtime's
// monotonic clock; the wall clock is never part of an interval. An actor,
// [Guard.Run], measures the clock's steps, compares it with the kernel's other
// clocks, and listens to what the gates say of their samples. From that it
// knows one of three states: good, suspect (visible, no consequence) and bad
// (adaptive limits fall back to their fixed ones; ADR 5). Evidence fades: after ten
// clean minutes a state is left by itself.
//
// A [Fault] bends the readings on purpose, so that an operator can rehearse
// what a bad clock does.
package clock
