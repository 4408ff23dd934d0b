package algorithms

import "time"

// Why a limit changed, in one word of a closed set: what [Knee.Why] and
// [Window.Why] return, and a label of metrics.
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
)

// Whys returns every word, in no order that means anything.
func Whys() []string {
	return []string{
		WhyRoom, WhyDemand, WhyBusy, WhyQueue, WhyUnused, WhyDrops, WhyTimeouts, WhyDrain, WhySlower, WhyDepartures,
	}
}

// change is the last time that a limit moved.
type change struct {
	at       int64 // monotonic ns
	from, to int
	why      string
}

// note remembers a change.
func (c *change) note(now int64, from, to int, why string) {
	if from != to {
		*c = change{now, from, to, why}
	}
}

// report adds the change to what operators read.
func (c *change) report(state map[string]float64) {
	state["changed_from"] = float64(c.from)
	state["changed_to"] = float64(c.to)
	state["changed_at_seconds"] = time.Duration(c.at).Seconds()
}

// explain is why a formula behind a window moved the limit.
func explain(s summary, dropped, remeasured bool, from, to int) string {
	switch {
	case remeasured:
		return WhySlower
	case to > from:
		return WhyRoom
	case dropped && s.bad >= s.slow:
		return WhyDrops
	case dropped:
		return WhyTimeouts
	default:
		return WhyQueue
	}
}
