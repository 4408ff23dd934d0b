package tuner

import "slices"

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
	k := Kept{Frozen: t.brake.frozen}
	for s := range t.hands {
		k.ByHand = append(k.ByHand, s.String())
	}
	slices.Sort(k.ByHand)
	for _, e := range t.council.entries {
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
	t.brake.frozen = k.Frozen
	for _, name := range k.ByHand {
		if s, err := ParseSetting(name); err == nil {
			t.hands[s] = true
		}
	}
	for _, e := range t.council.entries {
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
	for _, e := range old.council.entries {
		before[e.Name] = e
	}
	old.turn.Unlock()
	t.turn.Lock()
	defer t.turn.Unlock()
	t.journal.ring, t.journal.next = append(t.journal.ring, ring...), next
	for _, e := range t.council.entries {
		if was := before[e.Name]; was != nil {
			e.changes, e.reverts, e.strikes = was.changes, was.reverts, slices.Clone(was.strikes)
		}
	}
	t.publish(t.epoch)
}
