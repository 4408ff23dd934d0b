package envoy

import "time"

// Split is split, for tests.
func Split(rate float64, wants []float64) []float64 { return split(rate, wants) }

// Filling is filling, for tests.
func Filling(perSecond float64) (tokens uint32, every time.Duration) { return filling(perSecond) }
