package tuner

import (
	"fmt"
	"sync"
	"time"

	"github.com/admitd/admitd/tuner/signal"
)

// entry is a policy with what became of it.
type entry struct {
	Policy

	levers           []*lever
	seen             []SignalNow // its signals now
	held             string      // why it holds still now; "" = it does not
	blind            bool        // a record says that it is
	locked           bool
	strikes          []time.Time  // take-backs within the last strikeMemory
	paused           [2]time.Time // until then it does not lower, raise
	spread           map[*lever]float64
	changes, reverts uint64
}

// The directions of [entry.paused].
const (
	lower = 0
	raise = 1
)

func direction(ratio float64) int {
	if ratio > 1 {
		return raise
	}
	return lower
}

// lever is one setting that policies move.
type lever struct {
	at       Setting
	base     float64 // in the configuration; infinite = without bound
	current  float64
	follower float64 // the companion in the configuration; 0 = there is none
	touched  bool    // the tuner set it
	hand     bool    // a person set it; left alone until released
	doubt    bool    // what is tried could not be watched
	moved    time.Time
	open     []*Record // changes on trial, the oldest first
	advised  float64
	adviser  string
	decided  string // which policy won
	why      string
	wishes   []WishNow
	position float64 // between the winner's bounds: 0 at min, 1 at max
}

// feed is a signal with what was read of it.
type feed struct {
	Signal

	mu  sync.Mutex // guards sig
	sig *signal.Signal
}

func (f *feed) value(now int64) signal.Value {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sig.Value(now)
}

// add passes a reading on; a failure when err is not nil.
func (f *feed) add(now, at int64, v float64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.sig.Fail(err)
		return
	}
	f.sig.Add(now, at, v)
}

// look gathers the policy's signals and finds whether it may wish anything.
func (e *entry) look(now time.Time, all map[string]SignalNow) {
	e.seen, e.held = e.seen[:0:0], ""
	values := make([]float64, 0, len(e.Signals))
	for _, name := range e.Signals {
		s := all[name]
		e.seen = append(e.seen, s)
		values = append(values, s.Value)
		if !s.Trusted && e.held == "" {
			e.held = fmt.Sprintf("signal %s is not trusted: %s", name, s.Distrust)
		}
	}
	if e.held == "" {
		e.Rule.Observe(now, values)
	}
	switch {
	case e.locked:
		e.held = fmt.Sprintf("locked, as %d changes were taken back within an hour; unfreeze releases it", mostStrikes)
	case len(e.levers) == 0:
		e.held = "there is no setting " + e.Adjust.String()
	}
}
