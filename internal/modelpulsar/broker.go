package modelpulsar

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/pulsarwire"
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
	// KeepAlive is how long a client may be silent before it is asked whether it is
	// there; after a second such time it is given up. 0 = it is never asked.
	KeepAlive time.Duration
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

	mu       sync.Mutex  // guards the fields below; never held across a wait
	free     []time.Time // when each worker is free again
	entries  uint64
	sessions map[*session]struct{}
	names    map[produced]struct{} // of the producers that are open
	closed   bool
}

// produced is a producer as a broker tells them apart: by topic and name.
type produced struct{ topic, name string }

// New returns a broker.
func New(o Options) *Broker {
	o.Workers = max(o.Workers, 1)
	if o.MaxMessageSize <= 0 {
		o.MaxMessageSize = pulsarwire.DefaultMaxMessageSize
	}
	return &Broker{o: o, free: make([]time.Time, o.Workers), sessions: map[*session]struct{}{}, names: map[produced]struct{}{}}
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
	s := newSession(b, c)
	if !b.add(s) {
		return
	}
	defer b.remove(s)
	b.stats.Connections.Add(1)
	s.serve(ctx)
}

// Unload closes every producer of a topic, as a broker does before it gives the
// topic away or takes it up anew. Clients open them again, and send what had no
// receipt.
func (b *Broker) Unload(topic string) {
	b.mu.Lock()
	sessions := slices.Collect(maps.Keys(b.sessions))
	b.mu.Unlock()
	for _, s := range sessions {
		s.unload(topic)
	}
}

// claim notes that a producer is open; false when it is already.
func (b *Broker) claim(p produced) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, found := b.names[p]; found {
		return false
	}
	b.names[p] = struct{}{}
	return true
}

// release forgets a producer.
func (b *Broker) release(p produced) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.names, p)
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

// add remembers s, so that it can be closed; false when the broker has stopped.
func (b *Broker) add(s *session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.sessions[s] = struct{}{}
	}
	return !b.closed
}

// remove forgets s and its producers. It has ended: nobody opens any more.
func (b *Broker) remove(s *session) {
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.producers))
	s.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, s)
	for _, p := range open {
		delete(b.names, p)
	}
}

// closeAll closes every connection and refuses further ones.
func (b *Broker) closeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for s := range b.sessions {
		s.c.Close()
	}
}
