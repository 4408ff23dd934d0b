package limiter

import (
	"fmt"
	"unsafe"
)

// Short returns how many partitions are among those that are short at the backend.
func Short(b *Backend) int {
	b.fair.mu.Lock()
	defer b.fair.mu.Unlock()
	return len(b.fair.short)
}

// Leftovers says what a backend and a gate still count of permits and tickets; "" when
// there is nothing.
func Leftovers(b *Backend, g *Gate) (all string) {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	count := func(name string, n int64) {
		if n != 0 {
			all += fmt.Sprintf(" %s: %d", name, n)
		}
	}
	count("permits of the backend", b.held.held())
	count("left", b.left.Load())
	count("waiting", b.line.waiting.Load())
	count("foremost", int64(b.line.foremost.Load()))
	count("lanes aside", int64(b.line.aside.n))
	count("permits of the gate", g.held.Load())
	count("tickets of the gate", g.queued.Load())
	count("foremost of the gate", int64(g.foremost.Load()))
	for r := range b.line.ready {
		count("ready lanes", int64(len(b.line.ready[r].lanes)))
		count("ready tickets", int64(b.line.ready[r].tickets))
		count("blocked lanes", int64(len(g.blocked[r].lanes)))
		count("blocked tickets", int64(g.blocked[r].tickets))
	}
	return all
}

// Neighbors returns the fields of a partition and of its policy that are to lie on one
// cache line, and those that must not, two by two.
func Neighbors() (together, apart map[string][2]unsafe.Pointer) {
	p := newPartition(&Gate{}, "tenant", DefaultPartition, nil)
	s := &partitionSpec{part: p}
	together = map[string][2]unsafe.Pointer{
		"tally, busy":      {unsafe.Pointer(&p.tally), unsafe.Pointer(&p.counts.busy)},
		"tally, asked":     {unsafe.Pointer(&p.tally), unsafe.Pointer(&p.asked)},
		"tally, left":      {unsafe.Pointer(&p.tally), unsafe.Pointer(&p.left)},
		"part and classes": {unsafe.Pointer(&s.part), unsafe.Pointer(&s.classes)},
	}
	for _, why := range []cause{rateOfPartition, rateOfIngress, rateOfFleet, fullPartition, fullTotal, fullFleet, shedPartition, shedTotal, drainingIngress} {
		f, c := &p.counts.fates[why], Causes()[why]
		together["refusals of "+string(c.Reason)+" by "+string(c.Limit)] = [2]unsafe.Pointer{unsafe.Pointer(&f.rejected), unsafe.Pointer(&f.told)}
	}
	apart = map[string][2]unsafe.Pointer{
		"tally and refusals": {unsafe.Pointer(&p.tally), unsafe.Pointer(&p.counts.fates[fullPartition].rejected)},
	}
	return together, apart
}
