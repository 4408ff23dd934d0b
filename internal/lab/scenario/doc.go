// Package scenario is what the overload lab tries: a backend, the load that
// comes, what goes wrong, and what must hold of it.
//
// A [Scenario] is read from a file, with its variants; [Scenario.Variant] is one
// of them, ready to be played. A [Criterion] says which contender must keep which
// bound, and a [Ceiling] what is possible at best. Nothing here plays anything.
package scenario
