package observe

import "time"

// Delays opens delays.
type Delays struct{ d delays }

// Add opens add.
func (d *Delays) Add(counts []uint64, bounds []float64) time.Duration { return d.d.add(counts, bounds) }

// Late opens delays.late.
func (d *Delays) Late(by time.Duration) { d.d.late(by) }
