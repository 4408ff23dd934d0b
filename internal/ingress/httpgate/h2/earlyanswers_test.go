package h2_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// curl 7.88 that learns at once of an answer and that it need not send the rest takes
// it for an error of the protocol, and shows no answer: each upload of 2 MB that was
// refused ended so. So it is told once it has the answer.
func TestDismissedBehindTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		_ = c.ask(1, http.MethodPost, "/")
		c.wantDismissed(1, false)
		_ = c.ask(3, http.MethodPost, "/") // while the first ping is under way
		c.wantDismissed(3, false)
		c.hear()
		c.wantDismissed(1, true)
		c.wantDismissed(3, false)
		c.hear()
		c.wantDismissed(3, true)
		c.well(5)
	})
}

// A client that ends its upload by itself is told nothing.
func TestNotDismissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		_ = c.ask(1, http.MethodPost, "/")
		c.wantDismissed(1, false)
		_ = c.framer.WriteData(1, true, []byte("the rest"))
		_ = c.ask(3, http.MethodPost, "/")
		c.wantDismissed(3, false)
		_ = c.framer.WriteRSTStream(3, http2.ErrCodeCancel)
		c.hear()
		c.wantDismissed(1, false)
		c.wantDismissed(3, false)
		c.well(5)
	})
}

// Of a client that answers no ping the gate remembers as many as may be in flight.
func TestDismissedUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		for i := range uint32(3 * maxStreams) {
			_ = c.ask(2*i+1, http.MethodPost, "/")
			synctest.Wait()
		}
		c.wantDismissed(4*maxStreams-1, true)
		c.wantDismissed(4*maxStreams+1, false)
		c.mu.Lock()
		n := len(c.pings)
		c.mu.Unlock()
		if n != 1 {
			t.Errorf("%d pings, want 1 that was not answered", n)
		}
	})
}

// A session that ends asks nobody any more: who still sends would go on, and lose its
// answer with the connection.
func TestDismissedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		_ = c.ask(1, http.MethodPost, "/")
		c.wantDismissed(1, false)
		_ = c.ask(3, http.MethodPost, "/")
		c.wantDismissed(3, false)
		_ = c.framer.WriteGoAway(0, http2.ErrCodeNo, nil)
		c.wantDismissed(1, true)
		c.wantDismissed(3, true)
	})
}

// wantDismissed fails the test unless a stream has its answer whole, and was told or
// not that the rest need not be sent.
func (c *client) wantDismissed(id uint32, told bool) {
	c.t.Helper()
	if got := c.got(id); got.status != "200" || !got.ended || got.wasSet != told || got.reset != http2.ErrCodeNo {
		c.t.Errorf("stream %d: %+v, want it answered, and dismissed: %v", id, got, told)
	}
}
