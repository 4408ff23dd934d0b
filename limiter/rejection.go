package limiter

import (
	"errors"
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
	if hints {
		h := r.Hint(req)
		d.RetryAfterMS = ceilMS(h.RetryAfter)
		d.BaseBackoffMS = ceilMS(h.BaseBackoff)
	}
	return d
}

// ceilMS rounds up to whole milliseconds, so that a wait is never cut short.
func ceilMS(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
