package tuner

import (
	"slices"
	"time"
)

// Status is what the tuner says of itself, for JSON. It does not change.
type Status struct {
	At       time.Time       `json:"at"`
	Mode     Mode            `json:"mode"`
	Frozen   *Freeze         `json:"frozen,omitempty"`
	Hold     string          `json:"hold,omitempty"` // why nothing moves at all now
	Signals  []SignalNow     `json:"signals"`
	Policies []PolicyStatus  `json:"policies"`
	Settings []SettingStatus `json:"settings"`
	Records  []*Record       `json:"records"` // the newest first
	// Truncated is how many older records are kept and not listed.
	Truncated int `json:"truncated,omitempty"`
}

// PolicyStatus is a policy now.
type PolicyStatus struct {
	Name    string   `json:"name"`
	Adjust  string   `json:"adjust"`
	Signals []string `json:"signals"`
	Min     float64  `json:"min"`
	Max     float64  `json:"max"`
	Held    string   `json:"held,omitempty"` // why it holds still now
	Locked  bool     `json:"locked"`
	Changes uint64   `json:"changes"`
	Reverts uint64   `json:"reverts"` // by itself and by people
}

// SettingStatus is a setting that policies move.
type SettingStatus struct {
	Setting string   `json:"setting"`
	Value   *float64 `json:"value"`            // nil = without bound
	Base    *float64 `json:"base"`             // in the configuration
	Changed bool     `json:"changed"`          // the tuner set it
	ByHand  bool     `json:"byHand"`           // left alone until released
	Policy  string   `json:"policy,omitempty"` // the most careful, which decides
	Why     string   `json:"why,omitempty"`
	// Position between the bounds of the policy that decides: 0 at min, 1 at
	// max.
	Position float64   `json:"position"`
	Trials   int       `json:"trials"` // changes that are being watched
	Wishes   []WishNow `json:"wishes,omitempty"`
}

// Status returns what was true at the last tick, with at most n records; all
// that are kept when n is negative. It never waits.
func (t *Tuner) Status(n int) Status {
	s := *t.status.Load()
	if n >= 0 && n < len(s.Records) {
		s.Truncated = len(s.Records) - n
		s.Records = s.Records[:n]
	}
	return s
}

// Record returns the newest version of a record, or [ErrNoRecord].
func (t *Tuner) Record(id string) (*Record, error) {
	for _, r := range t.status.Load().Records {
		if r.ID == id {
			return r, nil
		}
	}
	return nil, ErrNoRecord
}

// publish makes what is true now readable. turn is held, or nobody else has t.
func (t *Tuner) publish(now time.Time) {
	s := Status{
		At: now.UTC().Round(0), Mode: t.o.Mode, Frozen: t.freezer.frozen, Hold: t.freezer.shown(),
		Signals: t.signals.all(now), Policies: make([]PolicyStatus, 0, len(t.policies.entries)),
		Settings: make([]SettingStatus, 0, len(t.levers)), Records: slices.Clone(t.journal.ring),
	}
	slices.Reverse(s.Records)
	for _, e := range t.policies.entries {
		s.Policies = append(s.Policies, PolicyStatus{
			Name: e.Name, Adjust: e.Adjust.String(), Signals: append([]string{}, e.Signals...), Min: e.Min, Max: e.Max,
			Held: e.held, Locked: e.locked, Changes: e.changes, Reverts: e.reverts,
		})
	}
	for _, l := range t.levers {
		at := SettingStatus{
			Setting: l.at.String(), Value: shown(l.current), Base: shown(l.base), Changed: l.touched, ByHand: t.hands[l.at],
			Policy: l.decided, Why: l.why, Position: l.position, Trials: len(l.open), Wishes: l.wishes,
		}
		if at.ByHand { // whatever was wished at the last look, and a frozen tuner looks no more
			at.Policy, at.Why, at.Wishes = "", "somebody set it by hand, or took it back; it is left alone until it is released", nil
		}
		s.Settings = append(s.Settings, at)
	}
	t.status.Store(&s)
}
