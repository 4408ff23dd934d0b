package pulsarproducer

import (
	"time"

	"github.com/admitd/admitd/pulsarwire"
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
	err := p.throttledLocked(now, false)
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

// flush sends what was deferred, once the throttling is over.
func (p *Producer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.state.until.After(now) {
		p.resume.Reset(p.state.until.Sub(now))
		return
	}
	for _, o := range p.deferred {
		p.sendLocked(now, o)
	}
	p.deferred = nil
}

// throttledLocked returns the error for a message that is throttled for too long.
func (p *Producer) throttledLocked(now time.Time, sent bool) error {
	return &ProducerThrottledError{
		Topic: p.topic, Reason: p.state.reason, Remaining: max(p.state.until.Sub(now), 0), Sent: sent,
	}
}

// timeoutLocked returns the error for a message that waited in vain: who waited
// for the throttling most of the time is told so.
func (p *Producer) timeoutLocked(now time.Time, o *op) error {
	waited, throttled := now.Sub(o.begin), p.state.total(now)-o.throttled
	if float64(throttled) > mostly*float64(waited) {
		return p.throttledLocked(now, o.sent)
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
