package tuner

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// mover moves settings: it decides by what policies wish, watches what is on trial
// and takes back what did harm. Whoever calls it has the tuner's turn.
type mover struct {
	o          Options
	gate       Gate
	journal    auditLog
	past       past
	policies   policySet
	levers     []*managedSetting
	hands      map[Setting]bool // that a person set; left alone until released
	generation uint64           // of the configuration that the levers began from
}

// decide moves one setting, or leaves it.
func (m *mover) decide(ctx context.Context, now time.Time, l *managedSetting) {
	if m.hands[l.at] {
		return
	}
	all := m.policies.wishes(now, l)
	if len(all) == 0 {
		return
	}
	best := all[0]
	for _, w := range all[1:] {
		if w.value < best.value {
			best = w
		}
	}
	l.decided, l.why, l.wishes = best.e.Name, best.Why, told(all)
	l.position = place(l.current, &best.e.Policy)
	if best.value == l.current {
		l.refused = ""
		return
	}
	if l.refused != "" {
		l.why += "; refused: " + l.refused
	}
	if stand := m.policies.stands(now, l, &best); stand != "" {
		l.why += "; " + stand
		return
	}
	m.grant(ctx, now, l, &best, all)
}

// grant does what is wished, or says that it would.
func (m *mover) grant(ctx context.Context, now time.Time, l *managedSetting, w *wish, all []wish) {
	e := w.e
	r := &Record{
		Kind: KindChange, Policy: e.Name, Setting: l.at.String(), Why: w.Why, Signals: e.seen,
		Old: shown(l.current), New: shown(w.value), Wanted: shown(w.Value), Bound: w.bound,
		Canary: m.o.Trial.Canary && len(e.levers) > 1 && e.levers[0] == l, Others: told(others(all, e)), Otherwise: otherwise(l, w, all),
		policy: e, at: now, old: l.current, new: w.value,
	}
	if m.o.Mode != Act {
		if l.adviser != e.Name || math.Abs(l.advised-w.value) > 0.01*w.value {
			l.adviser, l.advised = e.Name, w.value
			r.Kind = KindAdvice
			m.record(now, r)
		}
		return
	}
	l.moved = now
	if err := m.set(ctx, l, w.value, ""); err != nil {
		if l.refused != err.Error() { // told once, and not at every cooldown
			l.refused = err.Error()
			l.why += "; refused: " + l.refused
			r.Kind, r.Why = KindRefused, r.Why+"; refused: "+err.Error()
			m.record(now, r)
		}
		return
	}
	l.refused = ""
	e.Rule.Moved(now)
	e.changes++
	delete(e.spread, l)
	r.Trial = &Trial{State: trialOpen}
	m.record(now, r)
	l.try(&m.journal, r)
	m.o.Log.Info("tuner changed a setting", slog.String("setting", r.Setting), slog.String("policy", e.Name),
		slog.String("old", words(r.old)), slog.String("new", words(r.new)), slog.String("why", r.Why))
}

// set changes the setting through the gate's door. by is whose wish it is, ""
// for a policy's.
func (m *mover) set(ctx context.Context, l *managedSetting, v float64, by string) error {
	document, err := l.at.patch(v, l.follower)
	if err == nil {
		err = m.gate.Patch(ctx, m.generation, l.at.Ingress, by, document)
	}
	if err != nil {
		return fmt.Errorf("tuner: set %s to %s: %w", l.at, words(v), err)
	}
	l.current, l.touched = v, true
	return nil
}

// record files a record, completing what all have.
func (m *mover) record(now time.Time, r *Record) {
	r.At, r.Mode = now.UTC().Round(0), m.o.Mode
	m.journal.add(r)
}

// otherwise says what would have become of the setting without the winner.
func otherwise(l *managedSetting, w *wish, all []wish) string {
	text := "it would have stayed at " + words(l.current)
	next := others(all, w.e)
	for i := range next {
		if o := &next[i]; o.value != l.current {
			text = fmt.Sprintf("policy %s alone would have set %s", o.e.Name, words(o.value))
		}
	}
	if w.bound != "" {
		text += fmt.Sprintf("; without its %s it would be %s", w.bound, words(w.Value))
	}
	return text
}

// shown is a value as documents show it; nil = without bound.
func shown(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

// words is a value as sentences show it.
func words(v float64) string {
	if math.IsInf(v, 1) {
		return "no bound"
	}
	return fmt.Sprintf("%.6g", v)
}
