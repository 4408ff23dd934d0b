package memrelease_test

import (
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/daemon/memrelease"
)

// Memory is given back once much of it has lain idle at two looks in a row, not while
// the process takes and leaves it, not for little, and not twice in a minute.
func TestWhenTheLevelsIsOut(t *testing.T) {
	const mib = 1 << 20
	type look struct {
		memrelease.Level

		after time.Duration
		out   bool
	}
	for name, looks := range map[string][]look{
		"a wave has gone": {
			{memrelease.Level{40 * mib, 50 * mib, 3}, 5 * time.Second, false},
			{memrelease.Level{40 * mib, 50 * mib, 4}, 10 * time.Second, true},
			{memrelease.Level{40 * mib, 1 * mib, 5}, 15 * time.Second, false},
		},
		"little is idle": {
			{memrelease.Level{2 * mib, 7 * mib, 3}, 5 * time.Second, false},
			{memrelease.Level{2 * mib, 7 * mib, 3}, 10 * time.Second, false},
		},
		"little of much": {
			{memrelease.Level{400 * mib, 90 * mib, 3}, 5 * time.Second, false},
			{memrelease.Level{400 * mib, 90 * mib, 3}, 10 * time.Second, false},
		},
		"it is taken again": {
			{memrelease.Level{40 * mib, 50 * mib, 3}, 5 * time.Second, false},
			{memrelease.Level{80 * mib, 5 * mib, 3}, 10 * time.Second, false},
			{memrelease.Level{40 * mib, 50 * mib, 3}, 15 * time.Second, false},
		},
		"busy": {
			{memrelease.Level{40 * mib, 50 * mib, 3}, 5 * time.Second, false},
			{memrelease.Level{40 * mib, 50 * mib, 9}, 10 * time.Second, false},
			{memrelease.Level{40 * mib, 50 * mib, 15}, 15 * time.Second, false},
		},
		"waves": {
			{memrelease.Level{40 * mib, 50 * mib, 1}, 5 * time.Second, false},
			{memrelease.Level{40 * mib, 50 * mib, 1}, 10 * time.Second, true},
			{memrelease.Level{40 * mib, 50 * mib, 1}, 15 * time.Second, false},
			{memrelease.Level{40 * mib, 50 * mib, 1}, 20 * time.Second, false},
			{memrelease.Level{40 * mib, 50 * mib, 1}, 70 * time.Second, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var levels memrelease.LevelHistory
			began := time.Now()
			levels.Out(memrelease.Level{Cycles: looks[0].Cycles}, began)
			for _, l := range looks {
				if got := levels.Out(l.Level, began.Add(l.after)); got != l.out {
					t.Errorf("after %v: %t, want %t", l.after, got, l.out)
				}
			}
		})
	}
}

// What goroutines that have gone had on their stacks is seen to be idle, although the
// runtime keeps it for others, and is no more once it was given back.
func TestStacksOfThoseWhoHaveGone(t *testing.T) {
	const many, each = 1000, 32 << 10
	debug.FreeOSMemory()
	before := memrelease.Read()
	var up, down sync.WaitGroup
	leave := make(chan struct{})
	for range many {
		up.Add(1)
		down.Go(func() {
			deep(each / 1024)
			up.Done()
			<-leave
		})
	}
	up.Wait()
	close(leave)
	down.Wait()
	runtime.GC()
	left := memrelease.Read()
	if left.Idle < before.Idle+many*each || left.Used == 0 {
		t.Errorf("%d goroutines of %d bytes have gone, and the level is %+v; it was %+v", many, each, left, before)
	}
	debug.FreeOSMemory()
	if now := memrelease.Read(); now.Idle > before.Idle+many*each/4 {
		t.Errorf("it was given back, and the level is %+v; it was %+v and %+v", now, before, left)
	}
}

// deep needs n KiB of stack.
func deep(n int) byte {
	var frame [1 << 10]byte
	if n == 0 {
		return frame[0]
	}
	frame[n%len(frame)] = deep(n - 1)
	return frame[0]
}
