package pulsarproducer

import (
	"time"

	"github.com/admitd/admitd/internal/pulsarwire"
)

// mostly is the share of a wait that must have been throttling for the wait's
// timeout to be called by that name.
const mostly = 0.8

// throttling is what a producer knows about being throttled.
type throttling struct {
	reason  pulsarwire.Reason
	since   time.Time     // when the present throttling began; zero = there is none
	until   time.Time     // when it ends; zero = unknown, the whole connection is paused
	stalled bool          // the end is unknown: it ends with the next receipt
	spent   time.Duration // of earlier ones
}

// active reports whether the producer is throttled.
func (t *throttling) active(now time.Time) bool { return t.stalled || t.until.After(now) }

// total returns for how long the producer has been throttled in its life.
func (t *throttling) total(now time.Time) time.Duration {
	if t.since.IsZero() {
		return t.spent
	}
	if !t.stalled && t.until.Before(now) {
		now = t.until
	}
	return t.spent + now.Sub(t.since)
}

// begin notes a throttling of d from now on, 0 = until something flows again. It
// returns by how much longer than before the producer is throttled.
func (t *throttling) begin(now time.Time, reason pulsarwire.Reason, d time.Duration) time.Duration {
	if !t.active(now) {
		t.spent, t.since = t.total(now), now
	}
	t.reason = reason
	if d == 0 {
		t.stalled = true
		return 0
	}
	from, until := now, now.Add(d)
	if t.until.After(now) {
		from = t.until
	}
	t.until = until
	return max(until.Sub(from), 0)
}

// flows notes that a receipt has come: the connection is not paused.
func (t *throttling) flows(now time.Time) {
	if !t.stalled {
		return
	}
	t.spent = t.total(now)
	t.stalled, t.since = false, time.Time{}
	if t.until.After(now) {
		t.since = now
	}
}

// throttle serves a ThrottleProducer.
func (c *conn) throttle(body []byte) error {
	m, err := pulsarwire.DecodeThrottleProducer(body)
	if err != nil || c.o.IgnoreThrottling {
		return err
	}
	if p := c.producer(m.ProducerID); p != nil {
		p.throttle(m)
	}
	// The receipt goes behind what was written already, and in front of nothing:
	// what the producer has to send is deferred by now.
	return c.enqueue(func(out []byte) []byte {
		return pulsarwire.AppendFrame(out, pulsarwire.TypeThrottleProducerReceipt,
			pulsarwire.AppendRequestID(nil, m.RequestID))
	})
}

// maxPause bounds what a peer may ask for.
const maxPause = time.Hour

// throttle defers what the producer sends from now on, and fails at once what
// cannot wait for so long.
func (p *Producer) throttle(m pulsarwire.ThrottleProducer) {
	now := time.Now()
	d := time.Duration(min(m.PauseMillis, uint64(maxPause/time.Millisecond))) * time.Millisecond
	p.mu.Lock()
	longer := p.state.begin(now, m.Reason, d)
	var late []*op
	for _, o := range p.deferred {
		if p.state.until.After(o.deadline) {
			late = append(late, o)
		}
	}
	for _, o := range late {
		p.removeLocked(o)
	}
	err := p.throttledLocked(p.state.until.Sub(now), false)
	if d > 0 {
		p.window = max(minWindow, p.flow.receipts/2)
		p.flow.measure(now, len(p.deferred) > 0)
	}
	if d > 0 && p.err == nil {
		if p.resume == nil {
			p.resume = time.AfterFunc(d, p.flush)
		} else {
			p.resume.Reset(d)
		}
	}
	p.mu.Unlock()
	p.c.o.Throttled(p.topic, m.Reason, longer)
	for _, o := range late {
		o.done(err)
	}
}

// flow is how fast messages get through while there are more than get through.
type flow struct {
	receipts int       // since the last throttling
	since    time.Time // when that was
	rate     float64   // receipts per second; 0 = not known
}

// measure closes the stretch of time that ends with a throttling. It says
// something of the limit only when messages were waiting; otherwise the rate was
// the application's own.
func (f *flow) measure(now time.Time, saturated bool) {
	d := now.Sub(f.since).Seconds()
	switch {
	case !saturated || f.since.IsZero():
		f.rate = 0
	case d > 0 && f.rate == 0:
		f.rate = float64(f.receipts) / d
	case d > 0:
		f.rate = (f.rate + float64(f.receipts)/d) / 2
	}
	f.receipts, f.since = 0, now
}

// caution stretches what is estimated, because an estimate that is right half of
// the time fails the other half.
const caution = 1.5

// waitLocked returns how long a new message would have to wait: for the end of
// the throttling, and, by a cautious estimate, for those before it at the rate at
// which they have been getting through.
func (p *Producer) waitLocked(now time.Time) time.Duration {
	wait := max(p.state.until.Sub(now), 0)
	if ahead := len(p.deferred); ahead > 0 && p.flow.rate > 0 {
		wait = max(wait, time.Duration(caution*float64(ahead+p.sent)/p.flow.rate*float64(time.Second)))
	}
	return wait
}

// minWindow is how many messages a producer has on their way at least when a
// throttling is over. The window grows by one with each receipt, so that what was
// deferred does not hit the limit all at once and ends up waiting there, where it
// cannot fail early any more.
const minWindow = 16

// flush begins to send what was deferred, once the throttling is over.
func (p *Producer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.state.until.After(now) {
		p.resume.Reset(p.state.until.Sub(now))
		return
	}
	p.pumpLocked(now)
}

// throttledLocked returns the error for a message that is throttled for too long.
func (p *Producer) throttledLocked(remaining time.Duration, sent bool) error {
	return &ProducerThrottledError{Topic: p.topic, Reason: p.state.reason, Remaining: max(remaining, 0), Sent: sent}
}

// timeoutLocked returns the error for a message that waited in vain: who waited
// for the throttling most of the time is told so.
func (p *Producer) timeoutLocked(now time.Time, o *op) error {
	waited, throttled := now.Sub(o.begin), p.state.total(now)-o.throttled
	if float64(throttled) > mostly*float64(waited) {
		return p.throttledLocked(p.state.until.Sub(now), o.sent)
	}
	return ErrTimeout
}

// IsThrottled reports whether the producer is being throttled.
func (p *Producer) IsThrottled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.active(time.Now())
}

// Throttling returns why the producer is being throttled and for how long still,
// 0 when that is not known. It is not ok when the producer is not throttled.
func (p *Producer) Throttling() (reason pulsarwire.Reason, remaining time.Duration, ok bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.reason, max(p.state.until.Sub(now), 0), p.state.active(now)
}
