package shadow

import (
	"time"

	"github.com/admitd/admitd/limiter"
)

// DrawFrom returns how a request is guessed to go with n in flight, before a backend
// that was seen with others in flight, each time as slow.
func DrawFrom(seen map[int]time.Duration, n int) (latency time.Duration, guess bool) {
	c := &curve{}
	for inFlight, took := range seen {
		for range 2 * curveTrusted {
			c.learn(1, inFlight, took, limiter.Success)
		}
	}
	latency, _, guess = c.draw(2, n, 0)
	return latency, guess
}
