// Package lab is the overload lab: it drives the real limiter and client code
// against model backends in virtual time, and the same scenarios against a
// running gate in real time, and says what the limits did.
//
// A [scenario.Scenario] says what the backend is, what load comes and what goes
// wrong, and what must hold. A [Contender] is what stands before the backend: one
// of our limiters, none, or somebody else's. [Play] plays one variant of a
// scenario for one contender and seed; equal arguments give equal results, since
// one goroutine plays every event in order (ADR 4). A [Suite] makes many such
// runs at a time, and a report.Report says who kept the criteria.
//
// A [Live] run sends the same arrivals to a gate in real time. A trace of what a
// gate was asked is played through other limits by [Replay].
package lab
