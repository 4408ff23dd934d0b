// Package memrelease gives memory back to the system that many connections have needed
// at once and nobody needs any more: stacks, buffers and what the collector keeps
// free. The runtime keeps as much free as its heap may grow by, and returns the
// rest within minutes. A gate to whose clients nothing happens would hold twice
// what it needs, and for as long as nothing happens.
package memrelease

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// every is how often it looks.
	every = 5 * time.Second
	// apart is the shortest time between two returns: each collects garbage.
	apart = time.Minute
	// least is what a return must be worth, in bytes, and a quarter of what is used.
	least = 8 << 20
	// stack is what a goroutine that runs needs for its stack, in bytes.
	stack = 8 << 10
)

// Run gives back what is left, until ctx is done.
func Run(ctx context.Context) error {
	var t levelHistory
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			if t.out(read(), now) {
				debug.FreeOSMemory()
			}
		}
	}
}

// level is what the process holds, in bytes.
type level struct {
	used   uint64 // by objects, garbage among them
	idle   uint64 // of the heap and of stacks
	cycles uint64 // of the collector, so far
}

// read returns the level.
func read() level {
	s := [...]metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/sched/goroutines:goroutines"},
		{Name: "/gc/cycles/automatic:gc-cycles"},
	}
	metrics.Read(s[:])
	l := level{used: s[0].Value.Uint64(), idle: s[1].Value.Uint64(), cycles: s[4].Value.Uint64()}
	if stacks, running := s[2].Value.Uint64(), s[3].Value.Uint64()*stack; stacks > running {
		l.idle += stacks - running
	}
	return l
}

// levelHistory is what was seen so far.
type levelHistory struct {
	last   time.Time // given back
	cycles uint64
	low    bool // much was idle when it was looked last
}

// out reports whether to give back: much is idle, was so when it was looked last,
// and the process is not so busy that it takes it again at once.
func (t *levelHistory) out(l level, now time.Time) bool {
	calm := l.cycles-t.cycles <= 1
	t.cycles = l.cycles
	before := t.low
	t.low = calm && l.idle >= max(least, l.used/4)
	if !before || !t.low || now.Sub(t.last) < apart {
		return false
	}
	t.last, t.low = now, false
	return true
}
