package relay_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
)

// What is told before a wait, while it lasts, or as it ends for another reason is
// known at the next look, and known once.
func TestChange(t *testing.T) {
	var c relay.Change
	begin := func() <-chan struct{} {
		t.Helper()
		way := c.Wait()
		if way == nil {
			t.Fatal("a change was told twice")
		}
		return way
	}
	known := func(when string) {
		t.Helper()
		if c.Wait() != nil {
			t.Fatalf("%s: nobody knows of the change", when)
		}
	}
	for range 3 { // whatever was before
		c.Tell()
		c.Tell()
		known("told before the wait")

		way := begin()
		c.Tell()
		c.Tell()
		<-way
		c.Over(true)

		begin()
		c.Over(false)

		begin()
		c.Tell()
		c.Over(false)
		known("told as the wait ended")

		way = begin()
		select {
		case <-way:
			t.Fatal("a wait ended that nobody told of a change")
		default:
		}
		c.Over(false)
	}
}

// stirred is a toy that is told of changes besides, when an answer lands.
type stirred struct{ toy }

func (p *stirred) Landed(s *relay.Session, m relay.Message) (relay.Verdict, error) {
	if m.Bytes[5]%3 == 0 {
		s.Wake()
	}
	return p.toy.Landed(s, m)
}

// Whoever waits for its turn goes on when the answer comes, whether that is told
// before it waits, while it does, or together with what has changed besides. A change
// that were lost would leave it there for ever.
func TestNoChangeIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const questions = 300
		h := open(t, relay.Options{})
		c, ended := h.enter(&stirred{})
		var all []byte
		for i := range questions {
			all = append(all, toyMessage('q', []byte{byte(i)})...)
		}
		say(c, all)
		b := h.backend()
		go func() {
			for range questions {
				q, err := listenTo(b)
				if err != nil {
					return
				}
				_, _ = b.Write(toyMessage('a', q[5:]))
			}
		}()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		for i := range questions {
			if got := hear(t, c); !bytes.Equal(got[5:], []byte{byte(i)}) {
				t.Fatalf("answer %d is %q", i, got)
			}
		}
		_ = c.Close()
		<-ended
	})
}
