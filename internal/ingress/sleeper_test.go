package ingress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
)

// napper is a [ingress.Sleeper] whose connections sleep once they were greeted. wakes
// takes what wakes each of them.
type idleHandler struct {
	wakes chan func()
	panic bool // when woken
}

func (n *idleHandler) ServeConn(ctx context.Context, c net.Conn) { n.Begin(ctx, c, nil)() }

func (n *idleHandler) Begin(ctx context.Context, c net.Conn, wake func()) (serve func() (over bool)) {
	greeted, once := false, sync.Once{}
	again := wake
	wake = func() { once.Do(again) }
	context.AfterFunc(ctx, wake)
	return func() (over bool) {
		if !greeted {
			greeted = true
			_, _ = c.Write([]byte("hello"))
			n.wakes <- wake
			return false
		}
		if n.panic {
			panic("boom")
		}
		_ = c.Close()
		return true
	}
}

// A connection that sleeps has given its goroutine back, and is one of those that a
// drain waits for; it is over when the handler says so, or panics.
func TestSleepersStayConnections(t *testing.T) {
	for name, panics := range map[string]bool{"over": false, "panic": true} {
		t.Run(name, func(t *testing.T) {
			events := newEvents()
			n := &idleHandler{wakes: make(chan func(), 1), panic: panics}
			s, addr := start(t, n, ingress.Options{Observer: events})
			c := dial(t, addr)
			hello := make([]byte, 5)
			if _, err := io.ReadFull(c, hello); err != nil {
				t.Fatal(err)
			}
			wake := <-n.wakes
			if got := s.Status().Open; got != 1 {
				t.Errorf("%d connections are open while one sleeps, want 1", got)
			}
			wake()
			<-events.closed
			if _, err := c.Read(hello); !errors.Is(err, io.EOF) {
				t.Errorf("read = %v after the end, want EOF", err)
			}
			if got := s.Status().Open; got != 0 {
				t.Errorf("%d connections are open after the end, want 0", got)
			}
		})
	}
	t.Run("drain", func(t *testing.T) {
		n := &idleHandler{wakes: make(chan func(), 1)}
		s, addr := start(t, n, ingress.Options{DrainTimeout: time.Minute})
		dial(t, addr)
		<-n.wakes
		if err := s.Drain(t.Context()); err != nil {
			t.Errorf("Drain = %v while a connection sleeps, want nil", err)
		}
	})
}
