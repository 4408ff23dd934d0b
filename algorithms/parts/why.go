package parts

import "time"

// Why a limit changed, in one word of a closed set: what limits
// return who tell it, and a label of metrics.
const (
	WhyRoom       = "room"       // it was needed and nothing speaks against more
	WhyDemand     = "demand"     // requests are refused and nothing waits
	WhyBusy       = "busy"       // the backend turned out to do more
	WhyQueue      = "queue"      // what is in flight waits
	WhyUnused     = "unused"     // much less is in flight than it allows
	WhyDrops      = "drops"      // the backend refuses
	WhyTimeouts   = "timeouts"   // answers are slower than the target
	WhyDrain      = "drain"      // lowered for a moment, to see what gives way
	WhySlower     = "slower"     // latency without a queue is not what it was
	WhyDepartures = "departures" // callers would leave before what is in flight is answered
	WhyReset      = "reset"      // what was computed was not finite: it begins again
)

// Whys returns every word, in no order that means anything.
func Whys() []string {
	return []string{
		WhyRoom, WhyDemand, WhyBusy, WhyQueue, WhyUnused, WhyDrops, WhyTimeouts, WhyDrain, WhySlower, WhyDepartures, WhyReset,
	}
}

// Change is the last time that a limit moved.
type Change struct {
	at       int64 // monotonic ns
	from, to int
	Why      string
}

// Note remembers a change.
func (c *Change) Note(now int64, from, to int, why string) {
	if from != to {
		*c = Change{now, from, to, why}
	}
}

// Report adds the change to what operators read.
func (c *Change) Report(state map[string]float64) {
	state["changed_from"] = float64(c.from)
	state["changed_to"] = float64(c.to)
	state["changed_at_seconds"] = time.Duration(c.at).Seconds()
}
