package tuner

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// mostStrikes take-backs within strikeMemory lock a policy. Changes that were
// kept in between are no excuse: a signal that lags makes every other one look
// good.
const (
	mostStrikes  = 3
	strikeMemory = time.Hour
)

// watch judges every change that is on trial.
func (t *Tuner) watch(ctx context.Context, now time.Time) {
	for _, l := range t.levers {
		if len(l.open) == 0 {
			continue
		}
		first := l.open[0]
		if l.doubt {
			t.resolve(ctx, now, l)
			continue
		}
		before, after := t.bins(l, first.at, now)
		objBefore, objAfter, objective := t.judgeBins(l, first.at, now)
		harm := verdict(before, after, objBefore, objAfter, ratio(first.old, l.current), objective)
		if harm != "" {
			t.takeBack(ctx, now, l, harm)
			continue
		}
		t.spread(now, l)
		for len(l.open) > 0 && now.Sub(l.open[0].at) >= t.o.Trial.For {
			t.keep(l, before, after, objBefore, objAfter)
		}
	}
}

// ratio of a new value by an old one. From without bound anything is a small
// part.
func ratio(old, value float64) float64 {
	switch {
	case math.IsInf(old, 1):
		return 0
	case math.IsInf(value, 1), old <= 0:
		return math.MaxFloat64
	}
	return value / old
}

// bins are how the gate of a setting did before and after a moment.
func (t *Tuner) bins(l *lever, at, now time.Time) (before, after []bin) {
	for _, key := range l.at.vitals() {
		h := t.histories[key]
		before, after = h.between(at.Add(-t.o.Trial.For), at), h.between(at, now)
		if len(before) > 0 || len(after) > 0 {
			return before, after
		}
	}
	return before, after
}

// judgeBins are the bins by which the objective is judged.
func (t *Tuner) judgeBins(l *lever, at, now time.Time) (before, after []bin, objective float64) {
	key := t.judge(l)
	h := t.histories[key]
	return h.between(at.Add(-t.o.Trial.For), at), h.between(at, now), t.objectiveOf(key)
}

func (t *Tuner) judge(l *lever) string {
	if t.o.Trial.Ingress != "" {
		return t.o.Trial.Ingress
	}
	return l.at.Ingress
}

// keep ends the oldest trial of a setting well.
func (t *Tuner) keep(l *lever, before, after, objBefore, objAfter []bin) {
	r := *l.open[0]
	trial := Trial{State: trialKept, Test: "neither the objective nor goodput got worse"}
	if len(before) < leastBins || len(after) < leastBins {
		trial = Trial{State: trialNotJudged, Test: "too little was measured"}
	}
	trial.measure(before, after, objBefore, objAfter)
	r.Trial = &trial
	l.open = l.open[1:]
	t.journal.again(&r)
}

// close ends every trial of a setting without a verdict.
func (t *Tuner) close(l *lever, state, why string) {
	for _, open := range l.open {
		r := *open
		r.Trial = &Trial{State: state, Test: why}
		t.journal.again(&r)
	}
	l.open, l.doubt = nil, false
}

// resolve ends trials that could not be watched: what let more in is taken
// back, the rest stays.
func (t *Tuner) resolve(ctx context.Context, now time.Time, l *lever) {
	first, why := l.open[0], "it could not be watched: time, or what was measured, was not to be trusted"
	if ratio(first.old, l.current) <= 1 {
		t.close(l, trialNotJudged, why)
		return
	}
	old := l.current
	t.close(l, trialTakenBack, why)
	t.giveBack(ctx, now, l, first.old, &Record{
		Kind: KindTakeBack, Policy: first.Policy, Why: why, Old: shown(old), New: shown(first.old),
	})
}

// takeBack undoes every change of a setting that is on trial, and holds it
// against the policies.
func (t *Tuner) takeBack(ctx context.Context, now time.Time, l *lever, harm string) {
	first, old := l.open[0], l.current
	way := direction(ratio(first.old, old))
	before, after := t.bins(l, first.at, now)
	objBefore, objAfter, _ := t.judgeBins(l, first.at, now)
	trial := &Trial{State: trialTakenBack, Test: harm}
	trial.measure(before, after, objBefore, objAfter)
	guilty := map[*entry]bool{}
	for _, open := range l.open {
		r := *open
		r.Trial = trial
		t.journal.again(&r)
		guilty[r.policy] = true
	}
	l.open = nil
	t.giveBack(ctx, now, l, first.old, &Record{
		Kind: KindTakeBack, Policy: first.Policy, Why: harm, Signals: first.policy.seen, Old: shown(old), New: shown(first.old), Trial: trial,
		Otherwise: fmt.Sprintf("it would have stayed at %s, with p99 %.3gs and goodput %.4g/s", words(old), trial.P99After, trial.GoodputAfter),
	})
	for e := range guilty {
		clear(e.spread)
		e.reverts++
		e.strikes = append(e.strikes, now)
		for now.Sub(e.strikes[0]) > strikeMemory {
			e.strikes = e.strikes[1:]
		}
		n := len(e.strikes)
		e.paused[way] = now.Add(t.o.Trial.For << min(n, 6))
		if n >= mostStrikes && !e.locked {
			e.locked = true
			t.record(now, &Record{
				Kind: KindLock, Policy: e.Name, Signals: e.seen,
				Why: fmt.Sprintf("%d changes were taken back within an hour; it holds still until somebody looked", n),
			})
			t.o.Log.Warn("tuner locked a policy", slog.String("policy", e.Name))
		}
	}
}

// giveBack sets a setting to an earlier value and records it.
func (t *Tuner) giveBack(ctx context.Context, now time.Time, l *lever, to float64, r *Record) {
	r.Setting = l.at.String()
	if err := t.set(ctx, l, to); err != nil {
		r.Kind, r.Why = KindRefused, r.Why+"; and it could not be taken back: "+err.Error()
	}
	l.moved = now
	t.record(now, r)
	t.o.Log.Warn("tuner took a change back", slog.String("setting", r.Setting), slog.String("policy", r.Policy), slog.String("why", r.Why))
}

// spread lets the other settings of a policy follow the first one: upwards once
// its trial is over, downwards after one cooldown, as overload does not wait.
func (t *Tuner) spread(now time.Time, l *lever) {
	for i, r := range l.open {
		e := r.policy
		if !r.Canary || r.spread {
			continue
		}
		ratio := ratio(r.old, r.new)
		age := now.Sub(r.at)
		if ratio > 1 && age < t.o.Trial.For || age < e.Cooldown || ratio <= 0 {
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
