package httpgate

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// Cause says why an admitted request got no answer from the backend. The set
// is closed.
type Cause uint8

// The causes.
const (
	Unreachable Cause = iota // no connection
	Silent                   // no answer in time
	HungUp                   // the connection ended before the answer
	NotHTTP                  // the answer is not HTTP

	causes int = iota
)

// Causes returns every cause in a fixed order.
func Causes() []Cause { return []Cause{Unreachable, Silent, HungUp, NotHTTP} }

// String returns the cause as it appears in metrics.
func (c Cause) String() string {
	switch c {
	case Silent:
		return "timeout"
	case HungUp:
		return "closed"
	case NotHTTP:
		return "bad_response"
	default:
		return "unreachable"
	}
}

// warnEvery is how often a backend that fails is logged, at most.
const warnEvery = 10 * time.Second

// health counts how the backend failed, and logs it now and then.
type health struct {
	log     *slog.Logger
	ingress string
	now     func() int64 // monotonic ns

	counts [causes]atomic.Uint64
	warned atomic.Int64  // monotonic ns of the last line; 0 = never
	told   atomic.Uint64 // failures that the lines so far spoke of
}

// failed counts one failure.
func (h *health) failed(c Cause, backend string, err error) {
	h.counts[c].Add(1)
	now, last := h.now(), h.warned.Load()
	if last != 0 && now-last < int64(warnEvery) || !h.warned.CompareAndSwap(last, max(now, 1)) {
		return
	}
	var total uint64
	for i := range h.counts {
		total += h.counts[i].Load()
	}
	h.log.Warn("backend fails", slog.String("ingress", h.ingress), slog.String("backend", backend),
		slog.String("cause", c.String()), slog.Uint64("failures", total-h.told.Swap(total)), slog.Any("error", err))
}

// failures returns the counts by [Cause].
func (h *health) failures() []uint64 {
	out := make([]uint64, causes)
	for i := range h.counts {
		out[i] = h.counts[i].Load()
	}
	return out
}
