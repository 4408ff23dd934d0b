package tuner

import (
	"fmt"
	"time"
)

// entry is a policy with what became of it.
type entry struct {
	Policy

	levers           []*managedSetting
	seen             []SignalNow // its signals now
	held             string      // why it holds still now; "" = it does not
	blind            bool        // a record says that it is
	locked           bool
	strikes          []time.Time  // take-backs within the last strikeMemory
	paused           [2]time.Time // until then it does not lower, raise
	spread           map[*managedSetting]float64
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
type managedSetting struct {
	at       Setting
	base     float64 // in the configuration; infinite = without bound
	current  float64
	follower float64 // the companion in the configuration; 0 = there is none
	touched  bool    // the tuner set it
	doubt    bool    // what is tried could not be watched
	moved    time.Time
	open     []*Record // changes on trial, the oldest first
	advised  float64
	adviser  string
	decided  string // which policy won
	why      string
	wishes   []WishNow
	bounds   bounds
	refused  string  // what the daemon said of the last change; "" = it took it
	position float64 // between the winner's bounds: 0 at min, 1 at max
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

// try puts a change on trial. A change of direction ends the trials before it;
// a step back that stays above where the trial began leaves them open.
func (l *managedSetting) try(j *auditLog, r *Record) {
	if len(l.open) > 0 {
		first := l.open[0]
		up, wasUp := r.new > r.old, first.new > first.old
		switch {
		case up == wasUp:
		case wasUp && r.new > first.old:
			again := *r
			again.Trial = &Trial{State: trialNotJudged, Test: "a step back, while what came before is watched"}
			j.again(&again)
			return
		default:
			l.close(j, "the setting moved the other way")
		}
	}
	l.open = append(l.open, r)
}

// keep ends the oldest trial of a setting, which stays.
func (l *managedSetting) keep(j *auditLog, trial *Trial) {
	r := *l.open[0]
	r.Trial = trial
	l.open = l.open[1:]
	j.again(&r)
}

// close ends every trial of a setting without a verdict.
func (l *managedSetting) close(j *auditLog, why string) {
	l.end(j, &Trial{State: trialNotJudged, Test: why})
}

// end ends every trial of a setting in one way.
func (l *managedSetting) end(j *auditLog, trial *Trial) {
	for _, open := range l.open {
		r := *open
		r.Trial = trial
		j.again(&r)
	}
	l.open, l.doubt = nil, false
}

// lead lets the other settings of a policy follow the first one: upwards once
// its trial is over, downwards after one cooldown, as overload does not wait.
func (l *managedSetting) lead(now time.Time, trial time.Duration) {
	for i, r := range l.open {
		e := r.policy
		if !r.Canary || r.spread {
			continue
		}
		ratio := ratio(r.old, r.new)
		age := now.Sub(r.at)
		if ratio > 1 && age < trial || age < e.Cooldown || ratio <= 0 {
			continue
		}
		told := *r
		told.spread = true
		l.open[i] = &told
		for _, other := range e.levers {
			if other != l {
				e.spread[other] = ratio * orOne(e.spread[other])
			}
		}
	}
}

func orOne(v float64) float64 {
	if v == 0 {
		return 1
	}
	return v
}
