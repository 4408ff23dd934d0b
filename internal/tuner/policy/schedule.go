package policy

import (
	"fmt"
	"slices"
	"time"
)

// Hours is a part of the day in which a bound holds. It may span midnight; the
// days are those on which it begins.
type Hours struct {
	From, To time.Duration  // since midnight, in [0, 24 h]
	Days     []time.Weekday // empty = every day
	Bound    float64        // the setting is at most this
}

// Schedule bounds a setting by the hour, and gives it back afterwards.
type Schedule struct {
	Hours    []Hours
	Location *time.Location // of From and To; nil = UTC

	now time.Time
}

// Observe implements [Rule]; there are no values.
func (s *Schedule) Observe(now time.Time, _ []float64) {
	if s.Location == nil {
		s.Location = time.UTC
	}
	s.now = now.In(s.Location)
}

// Wish implements [Rule].
func (s *Schedule) Wish(set Setting) Wish {
	bound, found := set.Base, false
	why := ""
	for _, h := range s.Hours {
		if h.holds(s.now) && (!found || h.Bound < bound) {
			bound, found = min(h.Bound, set.Base), true
			why = fmt.Sprintf("bound of %.6g from %s to %s", h.Bound, clock(h.From), clock(h.To))
		}
	}
	if !found {
		return Wish{set.Base, "no bound at this hour"}
	}
	return Wish{bound, why}
}

// Moved implements [Rule].
func (*Schedule) Moved(time.Time) {}

// holds reports whether now lies within the hours.
func (h Hours) holds(now time.Time) bool {
	year, month, day := now.Date()
	gone := now.Sub(time.Date(year, month, day, 0, 0, 0, 0, now.Location()))
	today := now.Weekday()
	if h.From <= h.To {
		return h.on(today) && gone >= h.From && gone < h.To
	}
	return h.on(today) && gone >= h.From || h.on((today+6)%7) && gone < h.To
}

func (h Hours) on(d time.Weekday) bool { return len(h.Days) == 0 || slices.Contains(h.Days, d) }

func clock(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60)
}
