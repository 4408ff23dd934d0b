package memrelease

import "time"

// Level is what the process holds.
type Level struct{ Used, Idle, Cycles uint64 }

// LevelHistory is what was seen so far.
type LevelHistory struct{ levelHistory }

// Out reports whether to give back.
func (t *LevelHistory) Out(l Level, now time.Time) bool {
	return t.out(level{l.Used, l.Idle, l.Cycles}, now)
}

// Read returns the level.
func Read() Level {
	l := read()
	return Level{l.used, l.idle, l.cycles}
}
