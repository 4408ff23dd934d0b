package relay_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// slowest is a limit of one that keeps the longest latency that it is told.
type slowest struct {
	one

	took *time.Duration
}

func (l slowest) Observe(_ int64, latency time.Duration, _ int, _ bool) {
	*l.took = max(*l.took, latency)
}

// An upload that was answered while its permit was given back went on being the
// large message of the session: the next small one was told to the limit with
// all the time since the upload's end.
func TestAnsweredWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		h := open(t, relay.Options{})
		h.gate.Apply(&limiter.Policy{Default: limiter.PartitionPolicy{
			NewLimit: func() limiter.Limit { return slowest{took: &took} }, Signature: "slowest",
		}})
		c, _ := h.enter(&toy{need: 9})
		question := toyMessage('q', make([]byte, 1<<20))
		const first = 100 << 10
		say(c, question[:first])
		b := h.backend()
		if _, err := io.CopyN(io.Discard, b, first); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		if !h.free() {
			t.Fatal("the permit is held while the rest of the message does not come")
		}
		say(b, toyMessage('a', nil)) // an error, say, before the end came
		hear(t, c)
		say(c, question[first:])
		if _, err := io.CopyN(io.Discard, b, int64(len(question)-first)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		say(c, toyMessage('q', nil))
		hear(t, b)
		say(b, toyMessage('a', nil))
		hear(t, c)
		synctest.Wait()
		if took > time.Second {
			t.Errorf("the limit was told of %v; want next to nothing", took)
		}
	})
}

// keeper keeps the permit of its first question. While its second one is decided about,
// the permit is given back.
type keeper struct {
	toy

	asked int
	gives func(s *relay.Session)
}

func (k *keeper) Inspect(s *relay.Session, m relay.Message) (relay.Verdict, error) {
	if k.asked++; k.asked == 1 {
		s.Rest()
		return k.toy.Inspect(s, m)
	}
	k.gives(s)
	return relay.Verdict{Expect: true}, nil
}

func (k *keeper) Landed(*relay.Session, relay.Message) (relay.Verdict, error) {
	return relay.Verdict{Last: true}, nil
}

// A permit that is given back after a message came and before its answer was owed is
// taken again before the message is sent.
func TestYieldedAsTheNextMessageComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, relay.Options{})
		gave := false
		c, _ := h.enter(&keeper{gives: func(s *relay.Session) {
			h.relay.Tick()
			gave = s.Yield(h.relay.Tick(), limiter.Success)
		}})
		say(c, toyMessage('q', nil))
		b := h.backend()
		hear(t, b)
		say(b, toyMessage('a', nil))
		hear(t, c)
		synctest.Wait()
		say(c, toyMessage('q', nil))
		hear(t, b)
		synctest.Wait()
		if !gave {
			t.Fatal("the permit was not given back")
		}
		if h.free() {
			t.Error("the second question is at the backend without a permit")
		}
	})
}
