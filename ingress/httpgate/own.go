package httpgate

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// timingHeader tells clients how long the gate itself took.
const timingHeader = "X-Admitd-Timing"

// ownSample is how many requests there are for each whose own time is measured: a
// clock reading costs as much as a decision, and of many a few tell enough. It is a
// power of two.
const ownSample = 16

// ownTime measures what the gate itself adds to a request: identifying and
// deciding, writing the request and passing the answer's head on, without the
// backend, the client, or waiting in a queue. The zero value measures nothing.
type ownTime struct {
	on      bool
	sampled bool // Options.Own is to be told
	since   time.Time
	took    time.Duration
}

// beginOwn begins to measure, now and then or always.
func (rt *route) beginOwn() ownTime {
	sampled := rt.o.Own != nil && rand.Uint32()%ownSample == 0 //nolint:gosec // a sample, not a secret
	if !sampled && !rt.o.Timing {
		return ownTime{}
	}
	return ownTime{on: true, sampled: sampled, since: time.Now()}
}

// pause leaves out what comes.
func (t *ownTime) pause() {
	if t.on {
		t.took += time.Since(t.since)
	}
}

// pauser returns pause for somebody else to call, nil when nothing is measured.
func (t *ownTime) pauser() func() {
	if !t.on {
		return nil
	}
	return t.pause
}

// resume goes on.
func (t *ownTime) resume() {
	if t.on {
		t.since = time.Now()
	}
}

// drop gives the measurement up: the request waited, or had to be sent again.
func (t *ownTime) drop() { t.on = false }

// timing returns what an answer says that goes out now, "" for nothing: nobody
// asked, or the measurement was given up.
func (t *ownTime) timing(rt *route) string {
	if !t.on || !rt.o.Timing {
		return ""
	}
	took := t.took + time.Since(t.since)
	return "gate=" + strconv.FormatInt(max(took.Microseconds(), 1), 10) + "us"
}

// tell hands over what was measured, which was paused last.
func (t *ownTime) tell(rt *route) {
	if t.on && t.sampled {
		rt.o.Own(t.took)
	}
	t.on = false
}
