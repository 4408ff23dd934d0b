// Package falsify searches for the scenarios in which the default limit does
// worst: a backend, a load, callers and a fault for which it answers least in time
// beside the best fixed limit chosen in hindsight, or refuses most while the
// backend could serve all.
//
// A scenario is a [Point] of a cube with one coordinate for each choice. A round
// draws points at random, takes the worst, and moves it in small steps as long as
// it becomes worse. Rounds depend on the seed and their number alone, so that one
// that was found can be found again; what is found is a scenario file, which
// `admitd lab run --file` plays.
package falsify
