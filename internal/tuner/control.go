package tuner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of what people ask for.
var (
	// ErrNoRecord: no record of that ID is kept. Answered with 404.
	ErrNoRecord = errors.New("tuner: no such record")
	// ErrNothingToRevert: the record changed nothing, or what it changed has
	// begun anew from the configuration since. Answered with 409.
	ErrNothingToRevert = errors.New("tuner: nothing to take back")
	// ErrNoName: there is no policy and no setting of that name.
	ErrNoName = errors.New("tuner: no such policy or setting")
)

// Freeze stops every change until [Tuner.Unfreeze]. by says who did it. What is
// on trial stays as it is.
func (t *Tuner) Freeze(now time.Time, by string) {
	t.turn.Lock()
	defer t.turn.Unlock()
	defer t.publish(now)
	if t.freezer.frozen == nil {
		t.freezer.frozen = &Freeze{By: by, At: now.UTC().Round(0)}
		t.record(now, &Record{Kind: KindFreeze, By: by, Why: "somebody stopped the tuner"})
	}
	for _, l := range t.levers {
		l.close(&t.journal, "the tuner was frozen")
	}
}

// Unfreeze lets the tuner go on, and releases every policy that is locked and
// every setting that is left alone; with a name only that policy or setting,
// and a freeze stays.
func (t *Tuner) Unfreeze(now time.Time, by, name string) error {
	t.turn.Lock()
	defer t.turn.Unlock()
	defer t.publish(now)
	found := name == ""
	for _, e := range t.policies.entries {
		if name == "" || e.Name == name {
			e.locked, e.strikes, e.paused, found = false, nil, [2]time.Time{}, true
		}
	}
	for s := range t.hands {
		if name == "" || s.String() == name {
			delete(t.hands, s)
			found = true
		}
	}
	found = found || slices.ContainsFunc(t.levers, func(l *managedSetting) bool { return l.at.String() == name })
	if !found {
		return fmt.Errorf("%w: %q", ErrNoName, name)
	}
	why := "somebody let the tuner go on; what was locked or set by hand is released"
	if name == "" {
		t.freezer.frozen, t.freezer.panicked, t.freezer.why = nil, "", "" // the next look finds what else holds it
	} else {
		why = "somebody released " + name
	}
	t.record(now, &Record{Kind: KindUnfreeze, By: by, Why: why})
	return nil
}

// Revert takes back everything that the tuner set since the configuration was
// read, and leaves these settings alone until they are released. It returns the
// settings; when one cannot be set it goes on with the others.
func (t *Tuner) Revert(ctx context.Context, now time.Time, by string) ([]string, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	defer t.publish(now)
	var done []string
	var errs []error
	for _, l := range t.levers {
		if !l.touched {
			continue
		}
		if err := t.revert(ctx, now, l, l.base, by, ""); err != nil {
			errs = append(errs, err)
			continue
		}
		l.touched = false
		done = append(done, l.at.String())
	}
	return done, errors.Join(errs...)
}

// RevertOne takes back one change, and what followed on the same setting, and
// leaves the setting alone until it is released. It returns the setting.
func (t *Tuner) RevertOne(ctx context.Context, now time.Time, by, id string) (string, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	defer t.publish(now)
	r := t.journal.find(id)
	if r == nil {
		return "", fmt.Errorf("%w: %q", ErrNoRecord, id)
	}
	for _, l := range t.levers {
		if r.Kind == KindChange && l.at.String() == r.Setting && l.touched && r.At.After(t.reloaded()) {
			return r.Setting, t.revert(ctx, now, l, r.old, by, r.Policy)
		}
	}
	return "", fmt.Errorf("%w: record %s", ErrNothingToRevert, id)
}

// Kept is what holds over reloads and restarts until a person releases it.
type Kept struct {
	Frozen *Freeze  `json:"frozen,omitempty"`
	ByHand []string `json:"byHand,omitempty"` // settings that people set or took back, left alone
	Locked []string `json:"locked,omitempty"` // policies whose changes were taken back again and again
}

// Kept returns what holds now.
func (t *Tuner) Kept() Kept {
	t.turn.Lock()
	defer t.turn.Unlock()
	k := Kept{Frozen: t.freezer.frozen}
	for s := range t.hands {
		k.ByHand = append(k.ByHand, s.String())
	}
	slices.Sort(k.ByHand)
	for _, e := range t.policies.entries {
		if e.locked {
			k.Locked = append(k.Locked, e.Name)
		}
	}
	return k
}

// Keep takes over what held before. Names that mean nothing any more are ignored.
// Call it before the first tick.
func (t *Tuner) Keep(k Kept) {
	t.turn.Lock()
	defer t.turn.Unlock()
	t.freezer.frozen = k.Frozen
	for _, name := range k.ByHand {
		if s, err := ParseSetting(name); err == nil {
			t.hands[s] = true
		}
	}
	for _, e := range t.policies.entries {
		e.locked = slices.Contains(k.Locked, e.Name)
	}
	t.publish(t.epoch)
}

// Inherit takes over the records, the counts and what is kept of the tuner before
// this one, which has ended. Call it before the first tick.
func (t *Tuner) Inherit(old *Tuner) {
	t.Keep(old.Kept())
	old.turn.Lock()
	ring, next := old.journal.ring, old.journal.next
	before := map[string]*entry{}
	for _, e := range old.policies.entries {
		before[e.Name] = e
	}
	old.turn.Unlock()
	t.turn.Lock()
	defer t.turn.Unlock()
	t.journal.ring, t.journal.next = append(t.journal.ring, ring...), next
	for _, e := range t.policies.entries {
		if was := before[e.Name]; was != nil {
			e.changes, e.reverts, e.strikes = was.changes, was.reverts, slices.Clone(was.strikes)
		}
	}
	t.publish(t.epoch)
}
