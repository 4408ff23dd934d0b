package tuner

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/admitd/admitd/tuner/policy"
)

// worthIt is the share of a value below which a move is not worth making.
const worthIt = 0.005

// wish is what one policy asks of one setting, and what is left of it.
type wish struct {
	e *entry
	policy.Wish

	value float64 // cut to step and bounds; the setting's own value = it stays
	bound string
}

// decide moves one setting, or leaves it.
func (t *Tuner) decide(ctx context.Context, now time.Time, l *lever) {
	if l.hand {
		l.decided, l.wishes, l.why = "", nil, "somebody set it by hand; it is left alone until it is released"
		return
	}
	all := t.wishes(now, l)
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
	if stand := t.stands(now, l, &best); stand != "" {
		l.why += "; " + stand
		return
	}
	t.grant(ctx, now, l, &best, all)
}

// place says where a value lies between the bounds of a policy.
func place(v float64, p *Policy) float64 {
	if p.Max <= p.Min {
		return 0
	}
	return min(max((v-p.Min)/(p.Max-p.Min), 0), 1)
}

// wishes asks every policy that moves the setting.
func (t *Tuner) wishes(now time.Time, l *lever) []wish {
	var all []wish
	slack := t.slack(l)
	for _, e := range t.entries {
		if !e.moves(l) {
			continue
		}
		w := wish{e: e, value: l.current, Wish: policy.Wish{Value: l.current, Why: e.held}}
		if e.held == "" {
			w.Wish = t.ask(l, e, slack)
			w.value, w.bound = cut(&e.Policy, l, w.Value)
			if way := direction(w.value / l.current); w.value != l.current && now.Before(e.paused[way]) {
				w.value, w.bound = l.current, ""
				w.Why += "; it waits, as the last such change was taken back"
			}
		}
		all = append(all, w)
	}
	return all
}

func (e *entry) moves(l *lever) bool {
	return slices.Contains(e.levers, l)
}

// ask returns the wish of a policy that holds nothing back: its rule's, or
// where several settings are tried one by one, that of following the first.
func (t *Tuner) ask(l *lever, e *entry, slack bool) policy.Wish {
	s := policy.Setting{Value: min(l.current, e.Max), Base: l.base, Min: e.Min, Max: e.Max, Slack: slack}
	if e.Step > 0 { // it goes back step by step, and no further than it may
		s.Base = min(l.base, e.Max)
	}
	if t.follows(e, l) {
		factor := orOne(e.spread[l])
		if factor == 1 {
			return policy.Wish{Value: l.current, Why: "follows " + e.levers[0].at.String() + " once that did well"}
		}
		return policy.Wish{Value: s.Value * factor, Why: "follows " + e.levers[0].at.String()}
	}
	w := e.Rule.Wish(s)
	if e.Step > 0 && l.current > e.Max && w.Value >= s.Value {
		w.Value = l.current // a setting beyond the bounds is not pushed inside
	}
	return w
}

func (t *Tuner) follows(e *entry, l *lever) bool {
	return t.o.Trial.Canary && len(e.levers) > 1 && e.levers[0] != l
}

// slack reports whether nothing was refused lately at the setting's gate.
func (t *Tuner) slack(l *lever) bool {
	if strings.HasPrefix(l.at.Key, "connections.") {
		return false
	}
	for _, key := range l.at.vitals() {
		h := t.histories[key]
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

// cut bounds a wish by the policy's step and bounds. Bounds do not push: a
// setting that the file puts beyond them stays until a wish moves it inwards.
func cut(p *Policy, l *lever, want float64) (value float64, bound string) {
	from := min(l.current, p.Max)
	v := want
	switch {
	case math.IsNaN(v), v == l.current, math.Abs(v-l.current) < worthIt*min(l.current, math.MaxFloat64):
		return l.current, ""
	case v > l.current && l.at.unit() == stance:
		return l.current, "mode" // to refuse again is for people to decide
	case p.Step == 0 && v == l.base:
		return v, "" // what the file says needs no bound
	}
	if p.Step > 0 && !math.IsInf(v, 1) {
		if least := from * (1 - p.Step); v < least-1e-9*from {
			v, bound = least, "step"
		}
		if most := from * (1 + p.Step); v > most+1e-9*from {
			v, bound = most, "step"
		}
	}
	up := v > l.current
	v = l.at.round(v, from)
	if up && v > p.Max {
		v, bound = p.Max, "max"
	}
	if !up && v < p.Min {
		v, bound = p.Min, "min"
	}
	if up != (v > l.current) || v == l.current { // the bounds leave nothing of it
		return l.current, bound
	}
	return v, bound
}

// stands says what stands against a move now; "" = nothing.
func (t *Tuner) stands(now time.Time, l *lever, w *wish) string {
	if !l.moved.IsZero() && now.Sub(l.moved) < w.e.Cooldown {
		return "cooldown"
	}
	if w.value < l.current {
		return ""
	}
	_, lately, objective := t.judgeBins(l, now.Add(-t.o.Trial.For), now)
	switch {
	case len(lately) < leastBins:
		return "not raised before there is something to compare with"
	case objective > 0 && brokenNow(lately, objective):
		return "not raised while the objective is broken"
	}
	return ""
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
	t.try(l, r)
	t.o.Log.Info("tuner changed a setting", slog.String("setting", r.Setting), slog.String("policy", e.Name),
		slog.String("old", words(r.old)), slog.String("new", words(r.new)), slog.String("why", r.Why))
}

// try puts a change on trial. A change of direction ends the trials before it;
// a step back that stays above where the trial began leaves them open.
func (t *Tuner) try(l *lever, r *Record) {
	if len(l.open) > 0 {
		first := l.open[0]
		up, wasUp := r.new > r.old, first.new > first.old
		switch {
		case up == wasUp:
		case wasUp && r.new > first.old:
			again := *r
			again.Trial = &Trial{State: trialNotJudged, Test: "a step back, while what came before is watched"}
			t.journal.again(&again)
			return
		default:
			t.close(l, trialNotJudged, "the setting moved the other way")
		}
	}
	l.open = append(l.open, r)
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

func others(all []wish, winner *entry) []wish {
	var out []wish
	for _, w := range all {
		if w.e != winner {
			out = append(out, w)
		}
	}
	return out
}

func told(all []wish) []WishNow {
	out := make([]WishNow, 0, len(all))
	for _, w := range all {
		out = append(out, WishNow{Policy: w.e.Name, Value: shown(w.value), Why: w.Why})
	}
	return out
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
