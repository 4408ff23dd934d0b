package roundtrip

import (
	"time"

	"github.com/admitd/admitd/limiter"
)

// heldTime is how long the backend has had a request, for which a permit is held:
// its latency is the backend's, and waiting for the client is left out.
type heldTime struct {
	clock   *limiter.Gate // whose clock measures
	permit  limiter.Permit
	start   int64 // gate's clock when the backend had the request
	waited  int64 // ns of it spent waiting for the client
	sampled bool  // the permit was held before start: its own latency is too long
}

// handOver is when the backend gets the request, or begins to. late says that the
// client was waited for before.
func (t *heldTime) handOver(late bool) { t.start, t.sampled = t.clock.Now(), late }

// leaveOut leaves out what has passed since then, by the gate's clock.
func (t *heldTime) leaveOut(since int64) { t.waited += t.clock.Now() - since }

// latency is how long the backend has had the request until now.
func (t *heldTime) latency() time.Duration { return time.Duration(t.clock.Now() - t.start - t.waited) }

// end ends the permit with the backend's share of the latency.
func (t *heldTime) end(o limiter.Outcome) {
	if !t.sampled && t.waited == 0 {
		t.permit.End(o)
		return
	}
	t.permit.EndSampled(max(t.latency(), 1), o)
}
