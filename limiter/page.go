package limiter

import (
	"slices"
	"strings"
)

// StatusOptions choose which partitions a [Status] lists. The zero value lists
// all. Whatever is chosen, the sums are over all partitions.
type StatusOptions struct {
	// Partitions is how many of clients' keys are listed at most; 0 = all,
	// less = none. Those of the configuration are always listed, but on the
	// first page only.
	Partitions int
	// After lists those of clients' keys whose name comes after this one, in
	// bytewise order; "" = from the first.
	After string
}

// pager chooses the partitions that are listed.
type pager struct {
	o      StatusOptions
	always []*partitionSpec
	keys   []*partitionSpec
}

// first lists a partition of the configuration.
func (p *pager) first(s *partitionSpec) {
	if p.o.After == "" {
		p.always = append(p.always, s)
	}
}

// add considers the partition of a key. No more than twice the page is held.
func (p *pager) add(s *partitionSpec) {
	if p.o.Partitions < 0 || (p.o.After != "" && s.part.name <= p.o.After) {
		return
	}
	p.keys = append(p.keys, s)
	if p.o.Partitions > 0 && len(p.keys) >= 2*p.o.Partitions {
		p.cut()
	}
}

// cut keeps the page's worth of keys that come first.
func (p *pager) cut() {
	slices.SortFunc(p.keys, func(a, b *partitionSpec) int { return strings.Compare(a.part.name, b.part.name) })
	if p.o.Partitions > 0 {
		p.keys = p.keys[:min(len(p.keys), p.o.Partitions)]
	}
}

// list returns the page in its order.
func (p *pager) list() []*partitionSpec {
	p.cut()
	return append(p.always, p.keys...)
}
