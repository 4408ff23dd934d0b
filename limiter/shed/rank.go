package shed

import "github.com/admitd/admitd/labels"

// Ranks is how many classes there are that can be refused.
const Ranks = 4

// Rank is the place of a class that can be refused: 0 goes first.
type Rank uint8

// RankOf returns the place of a request's class, which without one is that of the
// other. Exempt requests never ask.
func RankOf(class, without labels.Class) Rank {
	if class < labels.CriticalPlus || class > labels.Sheddable {
		class = without
	}
	if class < labels.CriticalPlus || class > labels.Sheddable {
		class = labels.Critical
	}
	return Rank(class - labels.CriticalPlus)
}

// Class is the inverse of [RankOf].
func (r Rank) Class() labels.Class { return labels.CriticalPlus + labels.Class(r) }

// Sheddable reports whether a place is kept free of the class.
func (r Rank) Sheddable() bool { return r >= 2 }

// cohortOf returns the cohort of a partition in an hour, so that a tenant stays
// on one side of the line for that long and nobody for longer.
func cohortOf(hash uint64, hour int64) uint32 {
	z := hash + uint64(hour)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return uint32(z >> 59)
}

// Hash returns a hash of a partition's name that is the same in every gate.
func Hash(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// TopLevel is the last level: a line there serves everybody.
const TopLevel = levels - 1

// levelOf returns the last level that is served wholly.
func levelOf(line uint32) int { return int(line/grain) - 1 }
