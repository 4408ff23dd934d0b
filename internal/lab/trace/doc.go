// Package trace is recorded traffic: a [Recorder] writes what a gate was asked
// and how it went to a compact file, [Read] makes a [Trace] of it, and
// [Trace.Model] says what the trace shows of the backend behind the gate.
package trace
