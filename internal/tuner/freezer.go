package tuner

import "time"

// Freeze is that a person stopped the tuner.
type Freeze struct {
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
}

// brake is what keeps every setting where it is, whatever policies wish.
type freezer struct {
	off        bool      // by configuration
	settled    time.Time // nothing moves before
	frozen     *Freeze
	panicked   string
	distrusted bool   // the gate said so at the last look
	why        string // at the last look; "" = it is off
}

// settling is why nothing moves for a while after something was read anew.
const settling = "settling"

// look finds whether it is on. news says that this is worth a record.
func (b *freezer) look(now time.Time, st *State) (on, news bool) {
	b.distrusted = st.Hold != ""
	before := b.why
	b.why = ""
	switch {
	case b.panicked != "":
		b.why = "it panicked: " + b.panicked
	case b.off:
		b.why = "the mode is off"
	case st.Hold != "":
		b.why = st.Hold
	case b.frozen != nil:
		b.why = "frozen"
	case now.Before(b.settled):
		b.why = settling
	}
	return b.why != "", b.why != "" && b.why != before && b.why != settling
}

// shown is why nothing moves, as far as that is known between two looks.
func (b *freezer) shown() string {
	switch {
	case b.panicked != "":
		return "it panicked: " + b.panicked
	case b.frozen != nil:
		return "frozen"
	}
	return b.why
}
