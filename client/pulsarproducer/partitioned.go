package pulsarproducer

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
)

// Partitioned publishes to the partitions of one topic in turn, leaving out those
// that are throttled. It is safe for concurrent use.
type Partitioned struct {
	parts []*Producer
	turn  atomic.Uint64
}

// NewPartitioned returns a producer on every partition of a topic. A topic that
// is not partitioned counts as one.
func (c *Client) NewPartitioned(ctx context.Context, topic string, o ProducerOptions) (*Partitioned, error) {
	n, err := c.partitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	names := []string{topic}
	if n > 0 {
		names = names[:0]
		for i := range n {
			names = append(names, topic+"-partition-"+strconv.Itoa(i))
		}
	}
	p := &Partitioned{}
	for _, name := range names {
		part, err := c.NewProducer(ctx, name, o)
		if err != nil {
			return nil, errors.Join(err, p.Close(ctx))
		}
		p.parts = append(p.parts, part)
	}
	return p, nil
}

// Partitions returns the producers of the partitions, in order.
func (p *Partitioned) Partitions() []*Producer { return p.parts }

// Send is [Producer.Send] on the next partition.
func (p *Partitioned) Send(ctx context.Context, payload []byte) error {
	return p.next().Send(ctx, payload)
}

// SendAsync is [Producer.SendAsync] on the next partition.
func (p *Partitioned) SendAsync(ctx context.Context, payload []byte, done func(error)) {
	p.next().SendAsync(ctx, payload, done)
}

// next returns the next partition that is not throttled, or simply the next when
// all are.
func (p *Partitioned) next() *Producer {
	n := uint64(len(p.parts))
	first := p.turn.Add(1) - 1
	for i := range n {
		if part := p.parts[(first+i)%n]; !part.IsThrottled() {
			if i > 0 {
				p.turn.Add(i) // the next caller goes on behind it
			}
			return part
		}
	}
	return p.parts[first%n]
}

// IsThrottled reports whether any partition is being throttled.
func (p *Partitioned) IsThrottled() bool {
	for _, part := range p.parts {
		if part.IsThrottled() {
			return true
		}
	}
	return false
}

// Close closes the producers of all partitions.
func (p *Partitioned) Close(ctx context.Context) error {
	var err error
	for _, part := range p.parts {
		err = errors.Join(err, part.Close(ctx))
	}
	return err
}
