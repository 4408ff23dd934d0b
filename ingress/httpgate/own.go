package httpgate

import (
	"math/rand/v2"
	"time"
)

// ownSample is how many requests there are for each whose own time is measured: a
// clock reading costs as much as a decision, and of many a few tell enough. It is a
// power of two.
const ownSample = 16

// ownTime measures what the gate itself adds to a request: identifying and
// deciding, writing the request and passing the answer's head on, without the
// backend, the client, or waiting in a queue. The zero value measures nothing.
type ownTime struct {
	on    bool
	since time.Time
	took  time.Duration
}

// beginOwn begins to measure, now and then.
func (rt *route) beginOwn() ownTime {
	if rt.o.Own == nil || rand.Uint32()%ownSample != 0 { //nolint:gosec // a sample, not a secret
		return ownTime{}
	}
	return ownTime{on: true, since: time.Now()}
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

// tell hands over what was measured, which was paused last.
func (t *ownTime) tell(rt *route) {
	if t.on && rt.o.Own != nil {
		rt.o.Own(t.took)
	}
	t.on = false
}
