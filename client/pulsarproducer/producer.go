package pulsarproducer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/pulsarwire"
)

// Producer publishes to one topic. It is safe for concurrent use.
type Producer struct {
	c     *conn
	id    uint64
	topic string
	name  string
	o     ProducerOptions

	mu       sync.Mutex // guards the fields below; never held across a wait
	err      error      // why it is closed
	sequence uint64
	pending  map[uint64]*op // without a receipt, by sequence id
	deferred []*op          // of these, what was not sent, in order
	sent     int            // of these, what was sent
	window   int            // bound on sent after a throttling; 0 = none
	flow     flow
	alarm    alarm
	state    throttling
	resume   *time.Timer // sends what is deferred
}

// alarm rings at the earliest deadline.
type alarm struct {
	timer *time.Timer // nil = none was set
	at    time.Time   // zero = none is
}

// op is one message.
type op struct {
	sequence  uint64
	payload   []byte
	done      func(error)
	begin     time.Time
	deadline  time.Time
	throttled time.Duration // of the producer, at begin
	sent      bool
	stop      func() bool // ends the watch on the context; nil = there is none
}

// newProducer makes a producer on the connection.
func (c *conn) newProducer(ctx context.Context, topic string, o ProducerOptions) (*Producer, error) {
	p := &Producer{c: c, topic: topic, o: o, pending: map[uint64]*op{}}
	c.mu.Lock()
	c.nextID++
	p.id = c.nextID
	c.producers[p.id] = p
	c.mu.Unlock()
	a, err := c.request(ctx, pulsarwire.TypeProducer, func(id uint64) []byte {
		return pulsarwire.Producer{Topic: topic, ProducerID: p.id, RequestID: id, Name: o.Name}.Append(nil)
	})
	if err == nil {
		var m pulsarwire.ProducerSuccess
		m, err = pulsarwire.DecodeProducerSuccess(a.Body)
		p.name = m.Name
	}
	if err != nil {
		c.forget(p.id)
		if ctx.Err() != nil { // it may exist by now, and nobody else would end it
			c.abandon(p.id)
		}
		return nil, err
	}
	return p, nil
}

// abandon ends a producer without waiting for the answer.
func (c *conn) abandon(id uint64) {
	c.mu.Lock()
	c.requestID++
	request := c.requestID
	c.mu.Unlock()
	_ = c.enqueue(func(out []byte) []byte { // it fails only when the connection, and with it the producer, is over
		return pulsarwire.AppendFrame(out, pulsarwire.TypeCloseProducer,
			pulsarwire.CloseProducer{ProducerID: id, RequestID: request}.Append(nil))
	})
}

// Topic returns the topic's name.
func (p *Producer) Topic() string { return p.topic }

// Send publishes one message and waits for its receipt. See [Producer.SendAsync]
// for its errors.
func (p *Producer) Send(ctx context.Context, payload []byte) error {
	result := make(chan error, 1)
	p.SendAsync(ctx, payload, func(err error) { result <- err })
	return <-result
}

// SendAsync publishes one message and returns without waiting for anything. done
// is called exactly once, perhaps before SendAsync returns, and must not block:
// with nil when the receipt has come, [*ProducerThrottledError], [ErrTimeout],
// [ErrQueueFull], [ErrClosed], a [*ServerError] or ctx.Err(). The payload must not
// be changed before.
func (p *Producer) SendAsync(ctx context.Context, payload []byte, done func(error)) {
	if err := p.launch(ctx, payload, done); err != nil {
		done(err)
	}
}

// launch makes an op of a message, and sends it unless the producer is throttled.
func (p *Producer) launch(ctx context.Context, payload []byte, done func(error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(payload) > p.c.max {
		return fmt.Errorf("%w: message of %d bytes, at most %d", pulsarwire.ErrTooLarge, len(payload), p.c.max)
	}
	backlog := p.c.full()
	now := time.Now()
	deadline := now.Add(p.o.SendTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.err != nil:
		return p.err
	case backlog, len(p.pending) >= p.o.MaxPending:
		return ErrQueueFull
	}
	if wait := p.waitLocked(now); wait > deadline.Sub(now) {
		return p.throttledLocked(wait, false)
	}
	o := &op{
		sequence: p.sequence, payload: payload, done: done, begin: now, deadline: deadline,
		throttled: p.state.total(now),
	}
	p.sequence++
	p.pending[o.sequence] = o
	if ctx.Done() != nil {
		o.stop = context.AfterFunc(ctx, func() { p.expire(o, ctx.Err()) })
	}
	p.armLocked(deadline)
	p.deferred = append(p.deferred, o)
	p.pumpLocked(now)
	return nil
}

// pumpLocked sends what may be sent now.
func (p *Producer) pumpLocked(now time.Time) {
	if p.state.until.After(now) {
		return
	}
	n := 0
	for n < len(p.deferred) && (p.window == 0 || p.sent < p.window) {
		p.sendLocked(now, p.deferred[n])
		p.deferred[n] = nil
		n++
	}
	if p.deferred = p.deferred[n:]; len(p.deferred) == 0 {
		p.deferred = nil
	}
}

// sendLocked hands a message to the connection. When that is over, the message
// fails with it.
func (p *Producer) sendLocked(now time.Time, o *op) {
	o.sent = true
	p.sent++
	_ = p.c.enqueue(func(out []byte) []byte {
		return pulsarwire.AppendSendFrame(out,
			pulsarwire.Send{ProducerID: p.id, SequenceID: o.sequence, NumMessages: 1},
			pulsarwire.Metadata{ProducerName: p.name, SequenceID: o.sequence, PublishTime: uint64(now.UnixMilli())},
			o.payload)
	})
	o.payload = nil
}

// landed ends the message with the given sequence id; the broker has answered.
func (p *Producer) landed(sequence uint64, err error) {
	p.mu.Lock()
	o := p.pending[sequence]
	p.removeLocked(o)
	now := time.Now()
	p.state.flows(now)
	p.flow.receipts++
	if p.window > 0 {
		if p.window++; p.window > p.o.MaxPending {
			p.window = 0
		}
		p.pumpLocked(now)
	}
	p.mu.Unlock()
	if o != nil { // else it has timed out before
		o.done(err)
	}
}

// expire ends a message whose context ended.
func (p *Producer) expire(o *op, err error) {
	now := time.Now()
	p.mu.Lock()
	if p.pending[o.sequence] != o {
		p.mu.Unlock()
		return
	}
	p.removeLocked(o)
	if !o.deadline.After(now) {
		err = p.timeoutLocked(now, o)
	}
	p.mu.Unlock()
	o.done(err)
}

// sweep ends the messages whose deadline has come.
func (p *Producer) sweep() {
	now := time.Now()
	type ending struct {
		o   *op
		err error
	}
	var over []ending
	next := time.Time{}
	p.mu.Lock()
	for _, o := range p.pending {
		switch {
		case !o.deadline.After(now):
			over = append(over, ending{o, p.timeoutLocked(now, o)})
			p.removeLocked(o)
		case next.IsZero() || o.deadline.Before(next):
			next = o.deadline
		}
	}
	p.alarm.at = time.Time{}
	if !next.IsZero() {
		p.armLocked(next)
	}
	p.mu.Unlock()
	for _, e := range over {
		e.o.done(e.err)
	}
}

// armLocked makes sure that sweep runs at the given time, or earlier.
func (p *Producer) armLocked(at time.Time) {
	switch {
	case p.alarm.timer == nil:
		p.alarm.timer = time.AfterFunc(time.Until(at), p.sweep)
	case p.alarm.at.IsZero() || at.Before(p.alarm.at):
		p.alarm.timer.Reset(time.Until(at))
	default:
		return
	}
	p.alarm.at = at
}

// removeLocked takes a message out of the tables. It may be nil.
func (p *Producer) removeLocked(o *op) {
	if o == nil {
		return
	}
	delete(p.pending, o.sequence)
	if o.stop != nil {
		o.stop()
	}
	if o.sent {
		p.sent--
	} else {
		for i, d := range p.deferred {
			if d == o {
				p.deferred = append(p.deferred[:i], p.deferred[i+1:]...)
				break
			}
		}
	}
}

// fail closes the producer and ends its messages.
func (p *Producer) fail(err error) {
	p.mu.Lock()
	if p.err == nil {
		p.err = err
	}
	pending := p.pending
	p.pending, p.deferred, p.sent = map[uint64]*op{}, nil, 0
	for _, t := range []*time.Timer{p.alarm.timer, p.resume} {
		if t != nil {
			t.Stop()
		}
	}
	p.mu.Unlock()
	for _, o := range pending {
		if o.stop != nil {
			o.stop()
		}
		o.done(err)
	}
}

// Close ends the producer. Messages without a receipt fail with [ErrClosed].
func (p *Producer) Close(ctx context.Context) error {
	p.fail(ErrClosed)
	_, err := p.c.request(ctx, pulsarwire.TypeCloseProducer, func(id uint64) []byte {
		return pulsarwire.CloseProducer{ProducerID: p.id, RequestID: id}.Append(nil)
	})
	p.c.forget(p.id)
	return err
}
