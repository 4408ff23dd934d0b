package tuner

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// decide moves one setting, or leaves it.
func (t *Tuner) decide(ctx context.Context, now time.Time, l *lever) {
	if l.hand {
		l.decided, l.wishes, l.why = "", nil, "somebody set it by hand; it is left alone until it is released"
		return
	}
	all := t.council.wishes(now, l)
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
		return
	}
	if stand := t.council.stands(now, l, &best); stand != "" {
		l.why += "; " + stand
		return
	}
	t.grant(ctx, now, l, &best, all)
}

// grant does what is wished, or says that it would.
func (t *Tuner) grant(ctx context.Context, now time.Time, l *lever, w *wish, all []wish) {
	e := w.e
	r := &Record{
		Kind: KindChange, Policy: e.Name, Setting: l.at.String(), Why: w.Why, Signals: e.seen,
		Old: shown(l.current), New: shown(w.value), Wanted: shown(w.Value), Bound: w.bound,
		Canary: t.o.Trial.Canary && len(e.levers) > 1 && e.levers[0] == l, Others: told(others(all, e)), Otherwise: otherwise(l, w, all),
		policy: e, at: now, old: l.current, new: w.value,
	}
	if t.o.Mode != Act {
		if l.adviser != e.Name || math.Abs(l.advised-w.value) > 0.01*w.value {
			l.adviser, l.advised = e.Name, w.value
			r.Kind = KindAdvice
			t.record(now, r)
		}
		return
	}
	l.moved = now
	if err := t.set(ctx, l, w.value); err != nil {
		r.Kind, r.Why = KindRefused, r.Why+"; refused: "+err.Error()
		t.record(now, r)
		return
	}
	e.Rule.Moved(now)
	e.changes++
	delete(e.spread, l)
	r.Trial = &Trial{State: trialOpen}
	t.record(now, r)
	l.try(&t.journal, r)
	t.o.Log.Info("tuner changed a setting", slog.String("setting", r.Setting), slog.String("policy", e.Name),
		slog.String("old", words(r.old)), slog.String("new", words(r.new)), slog.String("why", r.Why))
}

// set changes the setting through the gate's door.
func (t *Tuner) set(ctx context.Context, l *lever, v float64) error {
	document, err := l.at.patch(v, l.follower)
	if err == nil {
		err = t.gate.Patch(ctx, t.generation, l.at.Ingress, document)
	}
	if err != nil {
		return fmt.Errorf("tuner: set %s to %s: %w", l.at, words(v), err)
	}
	l.current, l.touched = v, true
	return nil
}

// record files a record, completing what all have.
func (t *Tuner) record(now time.Time, r *Record) {
	r.At, r.Mode = now.UTC().Round(0), t.o.Mode
	t.journal.add(r)
}

// otherwise says what would have become of the setting without the winner.
func otherwise(l *lever, w *wish, all []wish) string {
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
