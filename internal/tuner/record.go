package tuner

import (
	"strconv"
	"time"

	"github.com/admitd/admitd/internal/tuner/signal"
)

// Kind is what a [Record] tells of. The set is closed.
type Kind string

// The kinds of records.
const (
	KindChange   Kind = "change"   // a setting was moved
	KindAdvice   Kind = "advice"   // a setting would have been moved
	KindRefused  Kind = "refused"  // the daemon refused the change
	KindTakeBack Kind = "takeBack" // the tuner took changes back, as they did harm
	KindRevert   Kind = "revert"   // a person took changes back
	KindLock     Kind = "lock"     // a policy was locked after several take-backs
	KindManual   Kind = "manual"   // a person changed a setting, which is left alone from now on
	KindFreeze   Kind = "freeze"   // a person stopped the tuner
	KindUnfreeze Kind = "unfreeze" // a person let it go on, and released what was locked or left alone
	KindBlind    Kind = "blind"    // a policy holds still, as a signal is not trusted
	KindSeeing   Kind = "seeing"   // all its signals are trusted again
	KindHold     Kind = "hold"     // the whole tuner holds still
	KindReload   Kind = "reload"   // the configuration was read anew, and everything begins from it
)

// Record is one decision, with all that led to it. Records that were handed out
// do not change; a trial that ends makes a new version under the same ID.
type Record struct {
	ID      string      `json:"id"`
	At      time.Time   `json:"at"`
	Kind    Kind        `json:"kind"`
	Mode    Mode        `json:"mode"`
	Policy  string      `json:"policy,omitempty"`
	Setting string      `json:"setting,omitempty"`
	Why     string      `json:"why"` // the rule and its numbers, in words
	Signals []SignalNow `json:"signals,omitempty"`
	// Old and New are the setting's values before and after; nil = without
	// bound, or there is none.
	Old *float64 `json:"old,omitempty"`
	New *float64 `json:"new,omitempty"`
	// Wanted is what the rule asked for, before it was cut by Bound: step, min,
	// max, or the key of the same limit that bounds it, such as minLimit; empty
	// when nothing cut it.
	Wanted *float64 `json:"wanted,omitempty"`
	Bound  string   `json:"bound,omitempty"`
	// Canary is true when this setting is the first of several to move.
	Canary bool `json:"canary,omitempty"`
	// Others are the wishes that did not win.
	Others []WishNow `json:"others,omitempty"`
	Trial  *Trial    `json:"trial,omitempty"`
	// Otherwise says what would have happened without the decision.
	Otherwise string `json:"otherwise,omitempty"`
	By        string `json:"by,omitempty"` // who, when a person did it

	policy *entry
	at     time.Time // with the monotonic clock
	old    float64
	new    float64
	spread bool // what follows the canary was told
}

// SignalNow is a signal at the moment of a decision.
type SignalNow struct {
	Name       string          `json:"name"`
	Value      float64         `json:"value"`
	Trusted    bool            `json:"trusted"`
	Distrust   signal.Distrust `json:"distrust,omitempty"`
	Detail     string          `json:"detail,omitempty"`
	AgeSeconds float64         `json:"ageSeconds"`
}

// WishNow is what one policy wishes of a setting.
type WishNow struct {
	Policy string   `json:"policy"`
	Value  *float64 `json:"value,omitempty"` // nil = without bound
	Why    string   `json:"why"`
}

// defaultRing is how many records are kept.
const defaultRing = 512

// journal keeps the newest records and passes all of them on.
type auditLog struct {
	next  int
	ring  []*Record
	audit func(*Record)
}

// add numbers a record and keeps it.
func (j *auditLog) add(r *Record) {
	j.next++
	r.ID = strconv.Itoa(j.next)
	j.ring = append(j.ring, r)
	if len(j.ring) > defaultRing {
		j.ring = append(j.ring[:0], j.ring[len(j.ring)-defaultRing:]...)
	}
	j.pass(r)
}

// again replaces a record by a later version of itself.
func (j *auditLog) again(r *Record) {
	for i := len(j.ring) - 1; i >= 0; i-- {
		if j.ring[i].ID == r.ID {
			j.ring[i] = r
			break
		}
	}
	j.pass(r)
}

func (j *auditLog) pass(r *Record) {
	if j.audit != nil {
		j.audit(r)
	}
}

// find returns the newest version of a record; nil when it is gone.
func (j *auditLog) find(id string) *Record {
	for _, r := range j.ring {
		if r.ID == id {
			return r
		}
	}
	return nil
}
