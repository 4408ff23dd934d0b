package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// Talk is what a client says on its connection: a greeting, and then one
// request after the other.
type Talk struct {
	Hello   []byte // nil = none
	Request []byte
	// Vary changes the request, which is the client's own then, before it is sent
	// for the n-th time; nil = it stays as it is.
	Vary func(request []byte, n int)
	// Whole reports whether b is a whole answer; an error ends the measurement.
	Whole func(b []byte) (bool, error)
}

// Load is what one measurement has shown.
type Load struct {
	Done     int
	Took     time.Duration
	P50, P99 time.Duration
}

// PerSecond returns the answers per second.
func (l *Load) PerSecond() float64 { return float64(l.Done) / l.Took.Seconds() }

// Client is a connection that was greeted.
type Client struct {
	net.Conn
	talk    *Talk
	request []byte
	asked   int
	buf     []byte
	size    int // of an answer; 0 = not known yet
}

// Dial connects and greets. source is the address to come from; nil = any.
func (t *Talk) Dial(addr string, source net.Addr) (*Client, error) {
	c, err := (&net.Dialer{LocalAddr: source}).Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	cl := &Client{Conn: c, talk: t, request: t.Request}
	if t.Vary != nil {
		cl.request = bytes.Clone(t.Request)
		cl.asked = rand.IntN(1 << 30) // clients do not all begin with the same
	}
	if t.Hello != nil {
		if _, err := cl.exchange(t.Hello); err != nil {
			c.Close()
			return nil, fmt.Errorf("greeting: %w", err)
		}
	}
	return cl, nil
}

// Ask sends the request and reads the answer, which is as long as the first was.
func (c *Client) Ask() error {
	if c.talk.Vary != nil {
		c.talk.Vary(c.request, c.asked)
		c.asked++
	}
	if c.size == 0 {
		n, err := c.exchange(c.request)
		c.size = n
		return err
	}
	if _, err := c.Write(c.request); err != nil {
		return err
	}
	_, err := io.ReadFull(c, c.buf[:c.size])
	return err
}

// exchange sends b and reads a whole answer.
func (c *Client) exchange(b []byte) (size int, err error) {
	if _, err := c.Write(b); err != nil {
		return 0, err
	}
	for {
		if size == len(c.buf) {
			c.buf = append(c.buf, make([]byte, max(len(c.buf), 4<<10))...)
		}
		n, err := c.Read(c.buf[size:])
		if err != nil {
			return size, err
		}
		size += n
		if whole, err := c.talk.Whole(c.buf[:size]); whole || err != nil {
			return size, err
		}
	}
}

// Find returns where the request says text.
func (t *Talk) Find(text string) int { return bytes.Index(t.Request, []byte(text)) }

// Crew is connections that ask at the same time.
type Crew []*Client

// Gather opens conns connections, spread over the addresses.
func (t *Talk) Gather(conns int, addrs ...string) (Crew, error) {
	crew := make(Crew, 0, conns)
	for i := range conns {
		c, err := t.Dial(addrs[i%len(addrs)], nil)
		if err != nil {
			crew.Close()
			return nil, err
		}
		crew = append(crew, c)
	}
	return crew, nil
}

// Close closes the connections.
func (all Crew) Close() {
	for _, c := range all {
		c.Close()
	}
}

// Drive asks on every connection, each as soon as it was answered, for d.
func (all Crew) Drive(ctx context.Context, d time.Duration) (Load, error) {
	took := make([][]time.Duration, len(all))
	failed := make([]error, len(all))
	began := time.Now()
	ctx, cancel := context.WithDeadline(ctx, began.Add(d))
	defer cancel()
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() { took[i], failed[i] = c.repeat(ctx) })
	}
	wg.Wait()
	l := Load{Took: time.Since(began)}
	answers := slices.Concat(took...)
	slices.Sort(answers)
	if l.Done = len(answers); l.Done == 0 {
		return l, errors.Join(append(failed, errors.New("nothing was answered"))...)
	}
	l.P50, l.P99 = answers[l.Done/2], answers[l.Done*99/100]
	return l, errors.Join(failed...)
}

// Drive gathers a class heap, has it ask for d, and dismisses it.
func (t *Talk) Drive(ctx context.Context, conns int, d time.Duration, addrs ...string) (Load, error) {
	crew, err := t.Gather(conns, addrs...)
	if err != nil {
		return Load{}, err
	}
	defer crew.Close()
	return crew.Drive(ctx, d)
}

// repeat asks until ctx is done and returns how long each answer took.
func (c *Client) repeat(ctx context.Context) (took []time.Duration, err error) {
	took = make([]time.Duration, 0, 1<<14)
	for at := time.Now(); ctx.Err() == nil; {
		if err := c.Ask(); err != nil {
			return took, err
		}
		now := time.Now()
		took = append(took, now.Sub(at))
		at = now
	}
	return took, nil
}

// Forget gives back what an idle client need not hold.
func (c *Client) Forget() { c.buf, c.size = nil, 0 }

// Begin has the next request be the n-th, of those that vary.
func (c *Client) Begin(n int) { c.asked = n }
