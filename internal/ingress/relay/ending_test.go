package relay_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/testkit/keypair"
)

// shy is a toy that lets nobody in.
type shy struct{ toy }

func (*shy) Inspect(*relay.Session, relay.Message) (relay.Verdict, error) {
	return relay.Verdict{}, errors.Join(relay.ErrTurnedAway, errToy)
}

// Clients that misbehave come back at once, each with a line in the log. Now there is
// one a second, with how many there were; and none of those who leave, are drained or
// are told that they may not come in.
func TestBadEndsAreLoggedAsARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := open(t, relay.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		time.Sleep(time.Second)
		for range 30 {
			c, ended := h.enter(&toy{})
			say(c, []byte("n\x00\x00\x00\x00"))
			if err := <-ended; !errors.Is(err, errToy) {
				t.Fatalf("ended for %v, want %v", err, errToy)
			}
			time.Sleep(100 * time.Millisecond)
		}
		for i, n := range []int{1, 10, 10} {
			line, err := log.ReadString('\n')
			if want := fmt.Sprintf("ingress=test connections=%d last_client=pipe", n); err != nil || !strings.Contains(line, want) {
				t.Errorf("line %d is %q, %v; want %q", i, line, err, want)
			}
		}
		half, stalled := h.enter(&toy{})
		say(half, toyMessage('q', nil))
		backend := h.backend()
		hear(t, backend) // or it is the backend that stands still
		say(backend, toyMessage('a', nil))
		hear(t, half)
		say(half, toyMessage('q', []byte("and no more"))[:9])
		<-stalled // which closes the connection under it
		if line, _ := log.ReadString('\n'); !strings.Contains(line, "stalled") {
			t.Errorf("of one that stalled %q is logged", line)
		}
		gone, left := h.enter(&toy{})
		_ = gone.Close()
		<-left
		c, turnedAway := h.enter(&shy{})
		say(c, toyMessage('n', nil))
		if err := <-turnedAway; !errors.Is(err, relay.ErrTurnedAway) {
			t.Errorf("ended for %v, want %v", err, relay.ErrTurnedAway)
		}
		_, drained := h.enter(&toy{})
		h.drain()
		if err := <-drained; !errors.Is(err, relay.ErrDrained) {
			t.Errorf("ended for %v, want %v", err, relay.ErrDrained)
		}
		if log.Len() > 0 {
			t.Errorf("logged of those who did nothing wrong:\n%s", log.String())
		}
	})
}

// A message that passed goes to the backend although the one behind it, which came
// with it, ends the session. It was counted and never sent: its permit was held for
// the ten minutes of [relay.DefaultFinish], and a few such clients shut a partition.
func TestWhatPassedIsSentBeforeABadEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, relay.Options{})
		c, ended := h.enter(&toy{})
		start := time.Now()
		say(c, append(toyMessage('q', nil), "n\x00\x00\x00\x00"...))
		b := h.backend()
		if got := hear(t, b); !bytes.Equal(got, toyMessage('q', nil)) {
			t.Errorf("the backend got %q, want what passed", got)
		}
		say(b, toyMessage('a', nil))
		hear(t, c)
		if err := <-ended; !errors.Is(err, errToy) {
			t.Errorf("ended for %v, want %v", err, errToy)
		}
		if !h.free() || time.Since(start) != 0 {
			t.Errorf("after %v: free %v; want the permit back at once", time.Since(start), h.free())
		}
	})
}

// A client over TLS that stands still is cut off without a farewell. That waits for
// five seconds where the client takes nothing, and who watches all sessions waited
// with it, so that no connection of the gate could begin or end.
func TestNoLastRefusalsToWhoStandsStill(t *testing.T) {
	server, client := keypair.Ends(t, "gate")
	synctest.Test(t, func(t *testing.T) {
		const patience = 1600 * time.Millisecond // a look every 100 ms
		h := open(t, relay.Options{Patience: patience})
		near, far := net.Pipe()
		defer near.Close()
		ended := make(chan error, 1)
		go func() { ended <- h.relay.Serve(h.ctx, tls.Server(far, server), &toy{}) }()
		c := tls.Client(near, client)
		if _, err := c.Write(toyMessage('n', nil)); err != nil {
			t.Fatal(err)
		}
		hear(t, h.backend())
		start := time.Now()
		if _, err := c.Write(toyMessage('q', []byte("and no more"))[:9]); err != nil {
			t.Fatal(err)
		}
		err := <-ended
		if took := time.Since(start); !errors.Is(err, relay.ErrStalled) || took > 2*patience {
			t.Errorf("ended after %v with %v; want a stall within %v", took, err, 2*patience)
		}
	})
}
