package modelpulsar_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/modelpulsar"
	"github.com/admitd/admitd/internal/pulsarwire"
)

// peer is a connection to a broker that is played frame by frame.
type peer struct {
	t *testing.T
	c net.Conn
	r *pulsarwire.Reader
}

// connect serves one, and ends it with the test.
func connect(t *testing.T, b *modelpulsar.Broker) *peer {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.ServeConn(context.Background(), far)
	}()
	t.Cleanup(func() { near.Close(); <-done })
	return &peer{t: t, c: near, r: pulsarwire.NewReader(near, 0)}
}

// write sends a frame.
func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.c.Write(b); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// open asks for a producer and returns what is answered.
func (p *peer) open(id uint64, name string) pulsarwire.Type {
	p.t.Helper()
	p.write(pulsarwire.AppendFrame(nil, pulsarwire.TypeProducer, pulsarwire.Producer{Topic: "t", ProducerID: id, Name: name}.Append(nil)))
	return p.next()
}

// send sends a message.
func (p *peer) send(id uint64) {
	p.t.Helper()
	p.write(pulsarwire.AppendSendFrame(nil, pulsarwire.Send{ProducerID: id, SequenceID: 7}, pulsarwire.Metadata{ProducerName: "n", SequenceID: 7}, []byte("x")))
}

// next returns the type of the next frame.
func (p *peer) next() pulsarwire.Type {
	p.t.Helper()
	f, err := p.r.Next()
	if err != nil {
		p.t.Fatalf("next: %v", err)
	}
	return f.Type
}

// A topic that is unloaded takes its producers with it. What was on its way for them
// is ignored, and their names are free.
func TestUnload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := modelpulsar.New(modelpulsar.Options{})
		p := connect(t, b)
		p.open(1, "n")
		if got := p.open(2, "n"); got != pulsarwire.TypeError {
			t.Errorf("a second producer of the name: %v; want an ERROR", got)
		}
		go b.Unload("t")
		if got := p.next(); got != pulsarwire.TypeCloseProducer {
			t.Errorf("unload: %v; want CLOSE_PRODUCER", got)
		}
		p.send(1)
		if got := p.open(1, "n"); got != pulsarwire.TypeProducerSuccess {
			t.Errorf("opened again: %v; want PRODUCER_SUCCESS", got)
		}
		p.send(1)
		if got := p.next(); got != pulsarwire.TypeSendReceipt {
			t.Errorf("a message: %v; want its receipt", got)
		}
		if got := b.Stats().Sends.Load(); got != 1 {
			t.Errorf("%d messages are stored; want the one of the producer that is open", got)
		}
	})
}

// A client that answers stays; one that does not is given up after the second time.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, modelpulsar.New(modelpulsar.Options{KeepAlive: time.Second}))
		start := time.Now()
		for range 3 {
			if got := p.next(); got != pulsarwire.TypePing {
				t.Fatalf("%v; want a PING", got)
			}
			p.write(pulsarwire.AppendFrame(nil, pulsarwire.TypePong, nil))
		}
		p.next() // is not answered
		if _, err := p.r.Next(); !errors.Is(err, io.EOF) || time.Since(start) != 5*time.Second {
			t.Errorf("%v after %v; want the end after 5 s", err, time.Since(start))
		}
	})
}
