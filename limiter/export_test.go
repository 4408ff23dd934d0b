package limiter

import "unsafe"

// Short returns how many partitions are among those that are short at the backend.
func Short(b *Backend) int {
	b.fair.mu.Lock()
	defer b.fair.mu.Unlock()
	return len(b.fair.short)
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
