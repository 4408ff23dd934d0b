package roundtrip

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// TimingHeader tells clients how long the gate itself took.
const TimingHeader = "X-Admitd-Timing"

// ownSample is how many requests there are for each whose own time is measured: a
// clock reading costs as much as a decision, and of many a few tell enough. It is a
// power of two.
const ownSample = 16

// OwnTime measures what the gate itself adds to a request: identifying and
// deciding, writing the request and passing the answer's head on, without the
// backend, the client, or waiting in a queue. The zero value measures nothing.
type OwnTime struct {
	on      bool
	shown   bool // answers tell
	sampled bool // Options.Own is to be told
	since   time.Time
	took    time.Duration
}

// BeginOwn begins to measure, now and then or always.
func (o *Options) BeginOwn() OwnTime {
	sampled := o.Own != nil && rand.Uint32()%ownSample == 0 //nolint:gosec // a sample, not a secret
	if !sampled && !o.Timing {
		return OwnTime{}
	}
	return OwnTime{on: true, shown: o.Timing, sampled: sampled, since: time.Now()}
}

// pause leaves out what comes.
func (t *OwnTime) pause() {
	if t.on {
		t.took += time.Since(t.since)
	}
}

// pauser returns pause for somebody else to call, nil when nothing is measured.
func (t *OwnTime) pauser() func() {
	if !t.on {
		return nil
	}
	return t.pause
}

// resume goes on.
func (t *OwnTime) resume() {
	if t.on {
		t.since = time.Now()
	}
}

// Drop gives the measurement up: the request waited, or had to be sent again.
func (t *OwnTime) Drop() { t.on = false }

// Timing returns what an answer says that goes out now, "" for nothing: nobody
// asked, or the measurement was given up.
func (t *OwnTime) Timing() string {
	if !t.on || !t.shown {
		return ""
	}
	took := t.took + time.Since(t.since)
	return "gate=" + strconv.FormatInt(max(took.Microseconds(), 1), 10) + "us"
}

// tell hands over what was measured, which was paused last.
func (t *OwnTime) tell(own func(time.Duration)) {
	if t.on && t.sampled {
		own(t.took)
	}
	t.on = false
}
