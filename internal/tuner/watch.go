package tuner

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
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
func (m *mover) watch(ctx context.Context, now time.Time) {
	for _, l := range m.levers {
		if len(l.open) == 0 {
			continue
		}
		first := l.open[0]
		if l.doubt {
			m.resolve(ctx, now, l, &Trial{Test: "it could not be watched: time, or what was measured, was not to be trusted"})
			continue
		}
		before, after := m.past.bins(l, first.at, now)
		objBefore, objAfter, objective := m.past.judgeBins(l, first.at, now)
		harm := verdict(before, after, objBefore, objAfter, ratio(first.old, l.current), objective)
		if harm != "" {
			m.takeBack(ctx, now, l, harm)
			continue
		}
		over := now.Sub(first.at) >= m.o.Trial.For
		trial := Trial{State: trialKept, Test: "neither the objective nor goodput got worse"}
		if over && !judged(before, after, objBefore, objAfter, objective) {
			trial = Trial{State: trialNotJudged, Test: "it could not be judged: too little was measured"}
		}
		trial.measure(before, after, objBefore, objAfter)
		if trial.State == trialNotJudged && ratio(first.old, l.current) > 1 {
			m.resolve(ctx, now, l, &trial)
			continue
		}
		l.lead(now, m.o.Trial.For)
		if over {
			l.keep(&m.journal, &trial)
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

// resolve ends trials that could not be judged, as the trial's test says: what let
// more in is taken back, the rest stays. Nobody is to blame.
func (m *mover) resolve(ctx context.Context, now time.Time, l *managedSetting, trial *Trial) {
	first, old := l.open[0], l.current
	if trial.State = trialNotJudged; ratio(first.old, old) <= 1 {
		l.end(&m.journal, trial)
		return
	}
	trial.State = trialTakenBack
	l.end(&m.journal, trial)
	m.giveBack(ctx, now, l, first.old, &Record{
		Kind: KindTakeBack, Policy: first.Policy, Why: trial.Test, Old: shown(old), New: shown(first.old), Trial: trial,
	})
}

// takeBack undoes every change of a setting that is on trial, and holds it
// against the policies.
func (m *mover) takeBack(ctx context.Context, now time.Time, l *managedSetting, harm string) {
	first, old := l.open[0], l.current
	way := direction(ratio(first.old, old))
	before, after := m.past.bins(l, first.at, now)
	objBefore, objAfter, _ := m.past.judgeBins(l, first.at, now)
	trial := &Trial{State: trialTakenBack, Test: harm}
	trial.measure(before, after, objBefore, objAfter)
	guilty := map[*entry]bool{}
	for _, open := range l.open {
		r := *open
		r.Trial = trial
		m.journal.again(&r)
		guilty[r.policy] = true
	}
	l.open = nil
	m.giveBack(ctx, now, l, first.old, &Record{
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
		e.paused[way] = now.Add(m.o.Trial.For << min(n, 6))
		if n >= mostStrikes && !e.locked {
			e.locked = true
			m.record(now, &Record{
				Kind: KindLock, Policy: e.Name, Signals: e.seen,
				Why: fmt.Sprintf("%d changes were taken back within an hour; it holds still until somebody looked", n),
			})
			m.o.Log.Warn("tuner locked a policy", slog.String("policy", e.Name))
		}
	}
}

// giveBack sets a setting to an earlier value and records it.
func (m *mover) giveBack(ctx context.Context, now time.Time, l *managedSetting, to float64, r *Record) {
	r.Setting = l.at.String()
	if err := m.set(ctx, l, to, ""); err != nil {
		r.Kind, r.Why = KindRefused, r.Why+"; and it could not be taken back: "+err.Error()
	}
	l.moved = now
	m.record(now, r)
	m.o.Log.Warn("tuner took a change back", slog.String("setting", r.Setting), slog.String("policy", r.Policy), slog.String("why", r.Why))
}

// reloaded is when the configuration was read anew; zero = it was not.
func (m *mover) reloaded() time.Time {
	for _, r := range slices.Backward(m.journal.ring) {
		if r.Kind == KindReload {
			return r.At
		}
	}
	return time.Time{}
}

// revert sets a setting to what it was, and leaves it to whoever asked.
func (m *mover) revert(ctx context.Context, now time.Time, l *managedSetting, to float64, by, name string) error {
	old := l.current
	if err := m.set(ctx, l, to, by); err != nil {
		return err
	}
	l.close(&m.journal, "somebody took it back")
	m.hands[l.at], l.moved = true, now
	for _, e := range m.policies.entries {
		if e.moves(l) {
			clear(e.spread)
			if name == "" || e.Name == name {
				e.reverts++
			}
		}
	}
	m.record(now, &Record{
		Kind: KindRevert, Policy: name, Setting: l.at.String(), Old: shown(old), New: shown(to), By: by,
		Why: "somebody took it back; the setting is left alone until it is released",
	})
	return nil
}
