package h2

import "testing"

// BoundStalled bounds the stalled streams of all sessions for a test, which runs alone.
func BoundStalled(t *testing.T, most, hard int64) {
	before := [2]int64{stalled.most, stalled.hard}
	stalled.most, stalled.hard = most, hard
	t.Cleanup(func() { stalled.most, stalled.hard = before[0], before[1] })
}

// Stalled returns how many streams are.
func Stalled() int64 { return stalled.n.Load() }
