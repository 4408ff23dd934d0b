package modelpulsar

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/pulsarwire"
)

// Options describe a [Broker]. The zero value answers every message at once.
type Options struct {
	// Workers that serve messages; 0 = 1. Without a ServiceTime it has no effect.
	Workers int
	// ServiceTime that a worker needs per message; 0 = none.
	ServiceTime time.Duration
	// Partitions of topics that are partitioned, by full topic name.
	Partitions map[string]int
	// URL that lookups answer, such as pulsar://127.0.0.1:6650; "" = the address
	// that the client connected to.
	URL string
	// MaxMessageSize announced in CONNECTED, bytes; 0 = 5 MiB.
	MaxMessageSize int
	// Sent is called for every valid SEND, on the connection's goroutine; nil =
	// nobody is told. size is the whole frame in bytes.
	Sent func(topic string, s pulsarwire.Send, size int)
	// Connected is called with the CONNECT of every client; nil = nobody is told.
	Connected func(c pulsarwire.Connect)
}

// Stats counts what a broker saw.
type Stats struct {
	Connections, Producers, Sends, Bytes atomic.Int64
	// Violations counts frames that a broker would not accept: wrong checksums,
	// malformed commands, messages for unknown producers.
	Violations atomic.Int64
	// Unknown counts commands that this broker does not serve.
	Unknown atomic.Int64
}

// Broker is the model. Make one with [New].
type Broker struct {
	o     Options
	stats Stats

	mu      sync.Mutex  // guards the fields below; never held across a wait
	free    []time.Time // when each worker is free again
	entries uint64
	conns   map[net.Conn]struct{}
	closed  bool
}

// New returns a broker.
func New(o Options) *Broker {
	o.Workers = max(o.Workers, 1)
	if o.MaxMessageSize <= 0 {
		o.MaxMessageSize = pulsarwire.DefaultMaxMessageSize
	}
	return &Broker{o: o, free: make([]time.Time, o.Workers), conns: map[net.Conn]struct{}{}}
}

// Stats returns the counters, which go on counting.
func (b *Broker) Stats() *Stats { return &b.stats }

// Serve accepts connections until ctx ends, then closes them all and waits for
// their goroutines.
func (b *Broker) Serve(ctx context.Context, ln net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := context.AfterFunc(ctx, func() {
		ln.Close()
		b.closeAll()
	})
	defer stop()
	for {
		c, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		wg.Go(func() { b.ServeConn(ctx, c) })
	}
}

// ServeConn serves one client until it leaves or breaks the protocol, and closes c.
func (b *Broker) ServeConn(ctx context.Context, c net.Conn) {
	defer c.Close()
	if !b.add(c) {
		return
	}
	defer b.remove(c)
	b.stats.Connections.Add(1)
	newSession(b, c).serve(ctx)
}

// schedule gives one message to the worker that is free first and returns when
// it will be done. Times never decrease from call to call, so that a session may
// answer in the order in which messages came.
func (b *Broker) schedule(now time.Time) (done time.Time, entry uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries++
	if b.o.ServiceTime <= 0 {
		return now, b.entries
	}
	first := 0
	for i, t := range b.free {
		if t.Before(b.free[first]) {
			first = i
		}
	}
	start := b.free[first]
	if start.Before(now) {
		start = now
	}
	b.free[first] = start.Add(b.o.ServiceTime)
	return b.free[first], b.entries
}

// add remembers c, so that it can be closed; false when the broker has stopped.
func (b *Broker) add(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.conns[c] = struct{}{}
	}
	return !b.closed
}

// remove forgets c.
func (b *Broker) remove(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}

// closeAll closes every connection and refuses further ones.
func (b *Broker) closeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for c := range b.conns {
		c.Close()
	}
}
