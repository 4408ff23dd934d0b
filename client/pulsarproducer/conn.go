package pulsarproducer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/pulsarwire"
)

// conn is one connection. Writing is done by a goroutine of its own, so that
// nobody who sends ever waits for the network.
type conn struct {
	nc   net.Conn
	o    *Options
	max  int // bytes of the largest message
	wg   sync.WaitGroup
	wake chan struct{} // something is to be written
	done chan struct{} // closed when err is set

	mu        sync.Mutex // guards the fields below; never held across a wait
	err       error
	out       []byte
	requests  map[uint64]chan answer
	producers map[uint64]*Producer
	requestID uint64
	nextID    uint64 // of producers
	heard     bool   // since the last look of keepAlive
}

// answer is what came for a request. Its body is the receiver's.
type answer struct {
	pulsarwire.Command
	err error
}

// dial connects and shakes hands.
func dial(ctx context.Context, o *Options, address, proxied string) (*conn, error) {
	nc, err := o.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("pulsarproducer: %w", err)
	}
	c := &conn{
		nc: nc, o: o, max: pulsarwire.DefaultMaxMessageSize, wake: make(chan struct{}, 1), done: make(chan struct{}),
		requests: map[uint64]chan answer{}, producers: map[uint64]*Producer{},
	}
	in := pulsarwire.NewReader(bufio.NewReaderSize(nc, 32<<10), 0)
	if err := c.greet(ctx, in, proxied); err != nil {
		nc.Close()
		return nil, err
	}
	c.wg.Go(func() { c.read(in) })
	c.wg.Go(c.write)
	c.wg.Go(c.keepAlive)
	return c, nil
}

// greet exchanges CONNECT and CONNECTED.
func (c *conn) greet(ctx context.Context, in *pulsarwire.Reader, proxied string) error {
	stop := context.AfterFunc(ctx, func() { c.nc.Close() })
	defer stop()
	hello := pulsarwire.Connect{
		ClientVersion: "admitd-pulsarproducer", ProtocolVersion: 19, ProxyToBroker: proxied, Throttling: !c.o.Unaware,
	}
	if _, err := c.nc.Write(pulsarwire.AppendFrame(nil, pulsarwire.TypeConnect, hello.Append(nil))); err != nil {
		return fmt.Errorf("pulsarproducer: CONNECT: %w", err)
	}
	f, err := in.Next()
	if err != nil {
		return fmt.Errorf("pulsarproducer: CONNECT: %w", errors.Join(err, ctx.Err()))
	}
	switch f.Type {
	case pulsarwire.TypeConnected:
		m, err := pulsarwire.DecodeConnected(f.Body)
		if m.MaxMessageSize > 0 {
			c.max = m.MaxMessageSize
		}
		return err
	case pulsarwire.TypeError:
		m, err := pulsarwire.DecodeError(f.Body)
		if err != nil {
			return err
		}
		return &ServerError{Code: m.Code, Message: m.Message}
	default:
		return fmt.Errorf("%w: command %d in answer to CONNECT", pulsarwire.ErrMalformed, f.Type)
	}
}

// over reports whether the connection has failed.
func (c *conn) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// fail ends the connection, its requests and its producers. The first reason counts.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	close(c.done)
	producers, requests := c.producers, c.requests
	c.producers, c.requests = map[uint64]*Producer{}, map[uint64]chan answer{}
	c.mu.Unlock()
	c.nc.Close()
	for _, r := range requests {
		r <- answer{err: err}
	}
	for _, p := range producers {
		p.fail(err)
	}
}

// enqueue appends what add appends to what is to be written. It does not wait.
func (c *conn) enqueue(add func(out []byte) []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.out = add(c.out)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// maxBacklog is how many bytes may wait to be written before new messages are
// turned away. Messages that time out stay among them, so that MaxPending alone
// would not bound what a connection that stands still costs.
const maxBacklog = 64 << 20

// full reports whether too much waits to be written.
func (c *conn) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.out) >= maxBacklog
}

// write is the goroutine that writes.
func (c *conn) write() {
	var batch []byte
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		c.mu.Lock()
		batch, c.out = c.out, batch[:0]
		c.mu.Unlock()
		if len(batch) == 0 {
			continue
		}
		if _, err := c.nc.Write(batch); err != nil {
			c.fail(fmt.Errorf("%w: %w", ErrClosed, err))
			return
		}
		if cap(batch) > 1<<20 {
			batch = nil
		}
	}
}

// keepAlive is the goroutine that gives a silent connection up.
func (c *conn) keepAlive() {
	tick := time.NewTicker(c.o.KeepAlive)
	defer tick.Stop()
	asked := false
	for {
		select {
		case <-tick.C:
		case <-c.done:
			return
		}
		c.mu.Lock()
		heard := c.heard
		c.heard = false
		c.mu.Unlock()
		switch {
		case heard:
			asked = false
		case asked:
			c.fail(fmt.Errorf("%w: nothing heard for %v", ErrClosed, 2*c.o.KeepAlive))
			return
		default:
			asked = true
			_ = c.enqueue(func(out []byte) []byte { // it fails only when the connection is over
				return pulsarwire.AppendFrame(out, pulsarwire.TypePing, nil)
			})
		}
	}
}

// read is the goroutine that reads.
func (c *conn) read(in *pulsarwire.Reader) {
	for {
		f, err := in.Next()
		if err == nil {
			err = c.handle(f)
		}
		if err != nil {
			c.fail(fmt.Errorf("%w: %w", ErrClosed, err))
			return
		}
	}
}

// handle serves one frame. What it does not know is ignored.
func (c *conn) handle(f pulsarwire.Frame) error {
	c.mu.Lock()
	c.heard = true
	c.mu.Unlock()
	switch f.Type {
	case pulsarwire.TypeSendReceipt:
		r, err := pulsarwire.DecodeSendReceipt(f.Body)
		if p := c.producer(r.ProducerID); err == nil && p != nil {
			p.landed(r.SequenceID, nil)
		}
		return err
	case pulsarwire.TypeSendError:
		e, err := pulsarwire.DecodeSendError(f.Body)
		if p := c.producer(e.ProducerID); err == nil && p != nil {
			p.landed(e.SequenceID, &ServerError{Code: e.Code, Message: e.Message})
		}
		return err
	case pulsarwire.TypeThrottleProducer:
		return c.throttle(f.Body)
	case pulsarwire.TypePing:
		return c.enqueue(func(out []byte) []byte { return pulsarwire.AppendFrame(out, pulsarwire.TypePong, nil) })
	case pulsarwire.TypeCloseProducer:
		m, err := pulsarwire.DecodeCloseProducer(f.Body)
		if p := c.forget(m.ProducerID); err == nil && p != nil {
			p.fail(fmt.Errorf("%w: by the broker", ErrClosed))
		}
		return err
	default:
		return c.answer(f)
	}
}

// answer hands an answer to who asked.
func (c *conn) answer(f pulsarwire.Frame) error {
	field := int32(1)
	switch f.Type {
	case pulsarwire.TypeSuccess, pulsarwire.TypeProducerSuccess, pulsarwire.TypeError:
	case pulsarwire.TypePartitionedMetadataOK:
		field = 2
	case pulsarwire.TypeLookupResponse:
		field = 4
	default:
		return nil
	}
	id, err := pulsarwire.DecodeRequestID(f.Body, field)
	if err != nil {
		return err
	}
	a := answer{Command: pulsarwire.Command{Type: f.Type, Body: slices.Clone(f.Body)}}
	if f.Type == pulsarwire.TypeError {
		e, err := pulsarwire.DecodeError(f.Body)
		if err != nil {
			return err
		}
		a.err = &ServerError{Code: e.Code, Message: e.Message}
	}
	c.mu.Lock()
	r := c.requests[id]
	delete(c.requests, id)
	c.mu.Unlock()
	if r != nil {
		r <- a
	}
	return nil
}

// request sends a command and waits for its answer.
func (c *conn) request(ctx context.Context, t pulsarwire.Type, body func(id uint64) []byte) (pulsarwire.Command, error) {
	r := make(chan answer, 1)
	c.mu.Lock()
	c.requestID++
	id := c.requestID
	if c.err == nil {
		c.requests[id] = r
	}
	c.mu.Unlock()
	if err := c.enqueue(func(out []byte) []byte { return pulsarwire.AppendFrame(out, t, body(id)) }); err != nil {
		return pulsarwire.Command{}, err
	}
	select {
	case a := <-r:
		return a.Command, a.err
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.requests, id)
		c.mu.Unlock()
		return pulsarwire.Command{}, ctx.Err()
	}
}

// producer returns the producer with the given id, nil when there is none.
func (c *conn) producer(id uint64) *Producer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.producers[id]
}

// forget removes a producer and returns it.
func (c *conn) forget(id uint64) *Producer {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.producers[id]
	delete(c.producers, id)
	return p
}
