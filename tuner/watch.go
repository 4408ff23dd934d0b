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
		before, after := t.past.bins(l, first.at, now)
		objBefore, objAfter, objective := t.past.judgeBins(l, first.at, now)
		harm := verdict(before, after, objBefore, objAfter, ratio(first.old, l.current), objective)
		if harm != "" {
			t.takeBack(ctx, now, l, harm)
			continue
		}
		l.lead(now, t.o.Trial.For)
		for len(l.open) > 0 && now.Sub(l.open[0].at) >= t.o.Trial.For {
			l.keep(&t.journal, before, after, objBefore, objAfter)
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

// resolve ends trials that could not be watched: what let more in is taken
// back, the rest stays.
func (t *Tuner) resolve(ctx context.Context, now time.Time, l *lever) {
	first, why := l.open[0], "it could not be watched: time, or what was measured, was not to be trusted"
	if ratio(first.old, l.current) <= 1 {
		l.close(&t.journal, trialNotJudged, why)
		return
	}
	old := l.current
	l.close(&t.journal, trialTakenBack, why)
	t.giveBack(ctx, now, l, first.old, &Record{
		Kind: KindTakeBack, Policy: first.Policy, Why: why, Old: shown(old), New: shown(first.old),
	})
}

// takeBack undoes every change of a setting that is on trial, and holds it
// against the policies.
func (t *Tuner) takeBack(ctx context.Context, now time.Time, l *lever, harm string) {
	first, old := l.open[0], l.current
	way := direction(ratio(first.old, old))
	before, after := t.past.bins(l, first.at, now)
	objBefore, objAfter, _ := t.past.judgeBins(l, first.at, now)
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
