package mongogate

import (
	"sync"
	"time"
)

// How the base of the clients' backoff follows the overload.
const (
	backoffWindow  = 200 * time.Millisecond // over which throughput is measured
	backoffFloor   = 100 * time.Millisecond // what drivers use by themselves
	backoffCeiling = 3 * time.Second        // drivers double it twice, and cap at 10 s
	backoffShare   = 0.04                   // of the throughput is for those who come back
	backoffSmooth  = 0.3                    // weight of the newest window
	backoffAssumed = 1000                   // commands per second before the first window
)

// backoff computes the base of the clients' backoff from the measured
// overload. Every refused client is given the next free slot in which to come
// back, and slots are as far apart as a share of the measured throughput
// allows. So the base grows with the number of clients that wait to return,
// whatever brought them.
//
// The share is small because drivers try three times only. On a saturated gate
// clients that were just answered take the place that they left, so one that
// returns finds it full most of the time; what keeps operations from failing
// is that few have to return. The price is a longer wait for those few. A
// formula of the refusal rate alone was tried: it swings, because its effect
// comes a backoff late.
type backoff struct {
	mu       sync.Mutex // guards the fields below; never held across a wait
	slot     int64      // monotonic ns of the last slot given away
	at       int64      // monotonic ns when the window began; 0 = never
	admitted int64      // counter at its begin
	rate     float64    // admissions per second, moving average; 0 = unknown
}

// next gives away a slot as of now (monotonic ns), by the counter of
// admissions, and returns the base that makes the mean of a driver's first
// backoff end there.
func (b *backoff) next(now, admitted int64) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.measureLocked(now, admitted)
	rate := b.rate
	if rate == 0 {
		rate = backoffAssumed
	}
	apart := time.Duration(float64(time.Second) / (backoffShare * max(rate, 1)))
	b.slot = min(max(b.slot, now)+int64(apart), now+int64(backoffCeiling))
	return max(time.Duration(b.slot-now), backoffFloor)
}

// measureLocked updates the throughput.
func (b *backoff) measureLocked(now, admitted int64) {
	elapsed := now - b.at
	if elapsed < int64(backoffWindow) && b.at != 0 {
		return
	}
	rate := float64(admitted-b.admitted) * 1e9 / float64(max(elapsed, 1))
	switch {
	case b.at == 0:
	case b.rate == 0 || elapsed > 20*int64(backoffWindow): // nothing was refused for long
		b.rate = rate
	default:
		b.rate += backoffSmooth * (rate - b.rate)
	}
	b.at, b.admitted = now, admitted
}
