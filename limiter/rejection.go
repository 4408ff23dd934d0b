package limiter

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/labels"
)

// ErrRejected is matched by every [*Rejection].
var ErrRejected = errors.New("limiter: rejected")

// Rejection is the error returned when a request is refused before any of its
// work ran. It matches [ErrRejected]. Rejections are shared: one exists per
// partition and cause, so that refusing allocates nothing (ADR 2). They never
// change.
type Rejection struct {
	Reason    labels.Reason
	Limit     labels.Limit // whose limit it was that refused
	Ingress   string       // name of the gate
	Partition string       // name of the partition that refused, never empty; clients' keys appear as they are

	part *partition
}

// Error implements error.
func (r *Rejection) Error() string {
	return "limiter: " + string(r.Reason) + " of the " + string(r.Limit) + " in partition " + r.Partition + " of " + r.Ingress
}

// Is makes every Rejection match [ErrRejected].
func (r *Rejection) Is(target error) bool { return target == ErrRejected }

// Hint is advice to a refused client.
type Hint struct {
	// RetryAfter is when a retry may succeed, jittered so that clients that
	// were refused together do not return together. 0 = unknown.
	RetryAfter time.Duration
	// BaseBackoff is the base of the client's exponential backoff: when the
	// capacity will have room for it, after those who were refused before it.
	// 0 = the client's own.
	BaseBackoff time.Duration
}

// Document returns the wire form of the rejection of the given request. Without
// hints the two waits are left out.
func (r *Rejection) Document(req Request, hints bool) labels.Document {
	d := labels.New(r.Reason, r.Ingress, r.Partition)
	d.Limit = r.Limit
	d.Class = r.class(req.Class)
	if hints {
		h := r.Hint(req)
		d.RetryAfterMS = ceilMS(h.RetryAfter)
		d.BaseBackoffMS = ceilMS(h.BaseBackoff)
	}
	return d
}

// class words the class of a refused request, "" where there are no classes.
func (r *Rejection) class(c labels.Class) string {
	if r.part == nil {
		return ""
	}
	if classes := r.part.spec.Load().classes; classes != nil {
		return classes.rank(c).Class().String()
	}
	return ""
}

// ceilMS rounds up to whole milliseconds, so that a wait is never cut short.
func ceilMS(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

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
	rateOfFleet
	costOfFleet
	fullPartition
	fullTotal
	latePartition
	lateTotal
	fullFleet
	lateFleet
	shedPartition
	shedTotal
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
		{labels.RequestRate, labels.ByFleet},
		{labels.CostExceedsBurst, labels.ByFleet},
		{labels.ConcurrencyLimit, labels.ByPartition},
		{labels.ConcurrencyLimit, labels.ByTotal},
		{labels.QueueTimeout, labels.ByPartition},
		{labels.QueueTimeout, labels.ByTotal},
		{labels.ConcurrencyLimit, labels.ByFleet},
		{labels.QueueTimeout, labels.ByFleet},
		{labels.Shed, labels.ByPartition},
		{labels.Shed, labels.ByTotal},
		{labels.Draining, labels.ByIngress},
	}
}

// fate is what one cause has done in a partition. What a refusal counts lies beside
// what it answers, on one cache line for the causes that come in floods.
type fate struct {
	rejected atomic.Uint64             // refused
	told     atomic.Pointer[Rejection] // what they are told; made when first needed
	spared   atomic.Uint64             // let through in shadow mode
}

// refused returns how many requests were refused for the cause.
func (f *fate) refused() uint64 { return f.rejected.Load() }

// passed returns how many would have been, and passed in shadow mode.
func (f *fate) passed() uint64 { return f.spared.Load() }

// fates are those of every cause.
type fates [causeCount]fate

// forPermit adds up the causes for which a request found no permit.
func (f *fates) forPermit(of func(*fate) uint64) (n uint64) {
	for i := fullPartition; i <= shedTotal; i++ {
		n += of(&f[i])
	}
	return n
}

// sum adds up all causes.
func (f *fates) sum(of func(*fate) uint64) (n uint64) {
	for i := range f {
		n += of(&f[i])
	}
	return n
}

// add adds what o counted.
func (f *fates) add(o *fates) {
	for i := range f {
		plus(&f[i].rejected, &o[i].rejected)
		plus(&f[i].spared, &o[i].spared)
	}
}

// snapshot reads the counts by reason and by cause; of the latter those that
// are not zero.
func (f *fates) snapshot(of func(*fate) uint64) (byReason map[labels.Reason]uint64, byCause map[Cause]uint64) {
	byReason = make(map[labels.Reason]uint64, len(labels.Reasons()))
	for _, reason := range labels.Reasons() {
		byReason[reason] = 0
	}
	for i, c := range Causes() {
		n := of(&f[i])
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
