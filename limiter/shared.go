package limiter

// Shared calls yield with every bucket of the gate whose rate several gates
// share, until it returns false: the ingress's under the name "", those of
// partitions under the name that tells them from each other, "=" and the name of
// one of the configuration or "~" and a client's key. label is what metrics may
// call it.
func (g *Gate) Shared(yield func(name, label string, b *Bucket) bool) {
	t := g.roster.table.Load()
	if t.bucket.Rate().Sharers > 0 && !yield("", "", t.bucket) {
		return
	}
	for _, s := range t.configured() {
		if s.own.Rate().Sharers > 0 && !yield("="+s.part.name, s.part.label, s.own) {
			return
		}
	}
	if !t.policy.Default.sharesRate() && !t.policy.anyKeyShares() {
		return
	}
	for s := range t.ofKeys() {
		if s.own.Rate().Sharers > 0 && !yield("~"+s.part.name, s.part.label, s.own) {
			return
		}
	}
}

// sharesRate reports whether the rate of the partition is shared.
func (p *PartitionPolicy) sharesRate() bool { return p.Rate.Sharers > 0 }

// anyKeyShares reports whether a single key has a rate that is shared.
func (p *Policy) anyKeyShares() bool {
	for _, k := range p.Keys {
		if k.sharesRate() {
			return true
		}
	}
	return false
}

// named returns the cause that stands for why where the limit is that of several
// gates.
func (s *partitionSpec) named(why cause) cause {
	if !s.is(fleet) {
		return why
	}
	full, late := fullPartition, latePartition
	if s.is(shared) && s.total == 0 { // the one limit of all partitions is what lies above theirs
		full, late = fullTotal, lateTotal
	}
	switch why {
	case full:
		return fullFleet
	case late:
		return lateFleet
	default:
		return why
	}
}

// Limits calls yield with the limit of every partition, until it returns false,
// under the names of [Gate.Shared]; one that partitions share comes once, as that
// of the partition default.
func (g *Gate) Limits(yield func(name, label string, l Limit) bool) {
	t := g.roster.table.Load()
	if t.shared != nil {
		yield("="+DefaultPartition, DefaultPartition, t.shared)
		return
	}
	for _, s := range t.configured() {
		if !yield("="+s.part.name, s.part.label, s.limit) {
			return
		}
	}
	for s := range t.ofKeys() {
		if !yield("~"+s.part.name, s.part.label, s.limit) {
			return
		}
	}
}
