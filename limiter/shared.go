package limiter

// Shared calls yield with every bucket of the gate whose rate several gates
// share, until it returns false: the ingress's under the name "", those of
// partitions under the name that tells them from each other, "=" and the name of
// one of the configuration or "~" and a client's key. label is what metrics may
// call it.
func (g *Gate) Shared(yield func(name, label string, b *Bucket) bool) {
	t := g.roster.table.Load()
	if t.bucket.shared() && !yield("", "", t.bucket) {
		return
	}
	for _, s := range t.configured() {
		if s.own.shared() && !yield("="+s.part.name, s.part.label, s.own) {
			return
		}
	}
	if !t.policy.Default.sharesRate() && !t.policy.anyKeyShares() {
		return
	}
	for s := range t.ofKeys() {
		if s.own.shared() && !yield("~"+s.part.name, s.part.label, s.own) {
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
