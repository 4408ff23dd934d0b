package tuner

import (
	"strings"
	"time"
)

// past is how gates and partitions did until now: changes are judged by it, and
// the gate's own signals are read from it.
type past struct {
	trial      TrialOptions
	histories  map[string]*history
	objectives map[string]time.Duration // that ingresses state
}

// note takes the vitals of a moment.
func (p *past) note(now time.Time, st *State) {
	p.objectives = st.Objectives
	length := binLength(p.trial.For)
	for key, v := range st.Vitals {
		h := p.histories[key]
		if h == nil {
			h = &history{}
			p.histories[key] = h
		}
		h.note(now, &v, length, p.objectiveOf(key))
	}
}

// objectiveOf is the objective in seconds of what is measured under a key of
// [State.Measurements]; 0 = none.
func (p *past) objectiveOf(key string) float64 {
	ingress, _, _ := strings.Cut(key, "/")
	if in := p.trial.Ingress; p.trial.Objective > 0 && (in == "" || in == ingress) {
		return p.trial.Objective.Seconds()
	}
	return p.objectives[ingress].Seconds()
}

// bins are how the gate of a setting did before and after a moment.
func (p *past) bins(l *managedSetting, at, now time.Time) (before, after []bin) {
	for _, key := range l.at.vitals() {
		h := p.histories[key]
		before, after = h.between(at.Add(-p.trial.For), at), h.between(at, now)
		if len(before) > 0 || len(after) > 0 {
			return before, after
		}
	}
	return before, after
}

// judgeBins are the bins by which the objective is judged.
func (p *past) judgeBins(l *managedSetting, at, now time.Time) (before, after []bin, objective float64) {
	key := p.judge(l)
	h := p.histories[key]
	return h.between(at.Add(-p.trial.For), at), h.between(at, now), p.objectiveOf(key)
}

// judge is the ingress by whose latency a change is judged.
func (p *past) judge(l *managedSetting) string {
	if p.trial.Ingress != "" {
		return p.trial.Ingress
	}
	return l.at.Ingress
}

// slack reports whether nothing was refused lately at the setting's gate.
func (p *past) slack(l *managedSetting) bool {
	if strings.HasPrefix(l.at.Key, "connections.") {
		return false
	}
	for _, key := range l.at.vitals() {
		h := p.histories[key]
		if h == nil {
			continue
		}
		for _, b := range h.bins[max(len(h.bins)-brokenInARow, 0):] {
			if b.refused > 0 || b.queued > 0 {
				return false
			}
		}
		return true
	}
	return true
}
