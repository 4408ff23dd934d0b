package limiter

import (
	"sync/atomic"

	"github.com/admitd/admitd/labels"
)

// Cause is why a request was refused and which limit refused it. The set is
// closed, see [Causes].
type Cause struct {
	Reason labels.Reason
	Limit  labels.Limit
}

// cause is a position in [Causes], or admitted.
type cause int

// admitted stands where there is no cause to refuse.
const admitted cause = -1

// The causes, in the order of [Causes].
const (
	rateOfPartition cause = iota
	rateOfIngress
	costOfPartition
	costOfIngress
	fullPartition
	fullTotal
	latePartition
	lateTotal
	drainingIngress
	causeCount = iota
)

// Causes returns every cause for which a gate refuses, in a fixed order.
func Causes() []Cause {
	return []Cause{
		{labels.RequestRate, labels.ByPartition},
		{labels.RequestRate, labels.ByIngress},
		{labels.CostExceedsBurst, labels.ByPartition},
		{labels.CostExceedsBurst, labels.ByIngress},
		{labels.ConcurrencyLimit, labels.ByPartition},
		{labels.ConcurrencyLimit, labels.ByTotal},
		{labels.QueueTimeout, labels.ByPartition},
		{labels.QueueTimeout, labels.ByTotal},
		{labels.Draining, labels.ByIngress},
	}
}

// byCause counts per cause.
type byCause [causeCount]atomic.Uint64

// forPermit adds up the causes for which a request found no permit.
func (b *byCause) forPermit() (n uint64) {
	for i := fullPartition; i <= lateTotal; i++ {
		n += b[i].Load()
	}
	return n
}

// add adds what o counted.
func (b *byCause) add(o *byCause) {
	for i := range b {
		b[i].Add(o[i].Load())
	}
}

// snapshot reads the counts by reason and by cause; of the latter those that
// are not zero.
func (b *byCause) snapshot() (byReason map[labels.Reason]uint64, byCause map[Cause]uint64) {
	byReason = make(map[labels.Reason]uint64, len(labels.Reasons()))
	for _, reason := range labels.Reasons() {
		byReason[reason] = 0
	}
	for i, c := range Causes() {
		n := b[i].Load()
		byReason[c.Reason] += n
		if n == 0 {
			continue
		}
		if byCause == nil {
			byCause = map[Cause]uint64{}
		}
		byCause[c] = n
	}
	return byReason, byCause
}
