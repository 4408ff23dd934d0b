package scenario

import "github.com/admitd/admitd/algorithms"

// Names in reports of contenders that are more than an algorithm by itself.
const (
	// Tuned is the fixed limit that an operator who knows the model would choose:
	// twice its workers.
	Tuned = "fixed-tuned"
	// Queued is what the configuration has when nothing is chosen: knee with the
	// automatic queue. The algorithms by themselves play without one.
	Queued = "knee+queue"
)

// Ours returns the names of the limiters that the product ships.
func Ours() []string { return algorithms.Kinds() }
