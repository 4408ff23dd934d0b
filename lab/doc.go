// Package lab is the overload lab: it drives the real limiter and client code
// against model backends in virtual time, and the same scenarios against a
// running gate in real time, and says what the limits did.
//
// A [Scenario] says what the backend is, what load comes and what goes wrong,
// and what must hold. A [Contender] is what stands before the backend: one of
// our limiters, none, or somebody else's. [Run] plays one scenario for one
// contender and one seed, and returns a [Result]; equal inputs give equal
// results to the last digit, since one goroutine plays every event in order.
package lab
