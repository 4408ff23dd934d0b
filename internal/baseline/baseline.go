// Package baseline keeps on disk what limits have learned of their backends: the
// latency without load, when it was learned and under what load. A limit that is
// made under overload can then begin with what was true before, instead of taking
// the latency of a queue for that of the backend.
//
// See ADR 24. A file is small, versioned and checked: [Write] replaces it as a whole, [Read]
// believes all of it or nothing. It reads no clock; time is passed in.
package baseline

import (
	"time"
)

const (
	// MaxAge is how old what was learned may be: backends change.
	MaxAge = 24 * time.Hour
	// maxAhead is how far in the future a file may have been written: clocks of
	// machines differ.
	maxAhead = 5 * time.Minute
	// MaxPartitions is how many partitions of each ingress are kept.
	MaxPartitions = 2000
	// maxBytes bounds what is read of a file.
	maxBytes = 8 << 20
)

// Ingress is what was learned behind one ingress. What was learned of another
// backend says nothing of this one.
type Ingress struct {
	Name       string      `json:"name"`
	Protocol   string      `json:"protocol"`
	Backend    string      `json:"backend"`
	Partitions []Partition `json:"partitions"`
}

// Partition is what the limit of one partition learned.
type Partition struct {
	Name      string    `json:"name"`
	Key       bool      `json:"key,omitempty"` // it stands for a client's key
	Algorithm string    `json:"algorithm"`     // which learned it: they do not mean the same by it
	RTTNS     int64     `json:"rttNS"`         // latency without load, nanoseconds, > 0
	Learned   time.Time `json:"learned"`       // when it was last seen to move
	InFlight  int       `json:"inFlight"`      // requests in flight then
	Seen      time.Time `json:"seen"`          // when it was last believed
}

// holds reports whether what was learned can still be believed as of now.
func (p *Partition) holds(now time.Time) bool {
	return p.RTTNS > 0 && p.RTTNS <= int64(time.Minute) && p.Name != "" && fresh(p.Seen, now)
}

// fresh reports whether something of that time says anything of now.
func fresh(at, now time.Time) bool {
	age := now.Sub(at)
	return age <= MaxAge && age >= -maxAhead
}
