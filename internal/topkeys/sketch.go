package topkeys

import (
	"cmp"
	"slices"
	"strings"
)

// sketch counts the keys that come most often (space-saving: Metwally, Agrawal,
// El Abbadi, 2005). Who is not known takes the place of the one that was counted
// least, and its count, which is the most that it can have missed.
type sketch[K comparable] struct {
	index map[K]int
	slots []slot[K]
}

type slot[K comparable] struct {
	key            K
	count, refused float64
	over           float64 // of count: what others left
}

// add counts a key. keep copies one that is going to be held; nil = it may be held
// as it is.
func (s *sketch[K]) add(key K, n, refused float64, keep func(K) K) {
	i, known := s.index[key]
	if !known {
		if keep != nil {
			key = keep(key)
		}
		if i, known = s.index[key]; !known { // cut short it may be
			i = s.place(key)
		}
	}
	s.slots[i].count += n
	s.slots[i].refused += refused
}

// place gives a new key a place.
func (s *sketch[K]) place(key K) int {
	if s.index == nil {
		s.index, s.slots = make(map[K]int, places), make([]slot[K], 0, places)
	}
	if len(s.slots) < places {
		s.index[key] = len(s.slots)
		s.slots = append(s.slots, slot[K]{key: key})
		return len(s.slots) - 1
	}
	least := 0
	for i := range s.slots {
		if s.slots[i].count < s.slots[least].count {
			least = i
		}
	}
	old := &s.slots[least]
	delete(s.index, old.key)
	s.index[key] = least
	*old = slot[K]{key: key, count: old.count, over: old.count}
	return least
}

// age makes what was counted count for less.
func (s *sketch[K]) age(keep float64) {
	for i := range s.slots {
		s.slots[i].count *= keep
		s.slots[i].refused *= keep
		s.slots[i].over *= keep
	}
}

// least is the rate, per second, of who asks no more.
const least = 0.02

// top returns the first n, as rates over the seconds that the counts stand for.
func top[K comparable](s *sketch[K], n int, byRefused bool, seconds float64, name func(K) string) []Row {
	rows := make([]Row, 0, len(s.slots))
	if seconds <= 0 {
		return rows
	}
	for i := range s.slots {
		c := &s.slots[i]
		// What was there before may be another's: of it nothing is claimed.
		if certain := (c.count - c.over) / seconds; certain < least || byRefused && c.refused/seconds < least {
			continue
		}
		rows = append(rows, Row{Name: name(c.key), Received: c.count / seconds, Refused: c.refused / seconds, Over: c.over / seconds})
	}
	slices.SortFunc(rows, func(a, b Row) int {
		if byRefused {
			return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Name, b.Name))
		}
		return cmp.Or(cmp.Compare(b.Received-b.Over, a.Received-a.Over), cmp.Compare(a.Name, b.Name))
	})
	return rows[:min(n, len(rows))]
}

// clip copies a name, without what is beyond the bound.
func clip(s string) string { return strings.Clone(s[:min(len(s), maxText)]) }
