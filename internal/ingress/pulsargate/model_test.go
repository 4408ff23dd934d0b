package pulsargate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// move is one thing that happens on a connection.
type move struct {
	producer uint64
	size     int
	wait     time.Duration // after it
}

// Whatever is sent on whichever producer, under whichever limits: every message
// arrives exactly once, whole, in the order of its producer, no topic gets more
// than its bucket lets through, and in the end nothing is held.
func TestEveryMessageArrivesOnceInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate := rapid.Float64Range(20, 200).Draw(rt, "rate")
		limits := pulsargate.Limits{
			Topic:        topics.PublishRate{Messages: rate, BurstSeconds: rapid.Float64Range(0.05, 0.5).Draw(rt, "burst")},
			MaxPending:   rapid.IntRange(2, 50).Draw(rt, "pending"),
			MaxHeldBytes: rapid.IntRange(2_000, 100_000).Draw(rt, "held"),
		}
		hello := unaware()
		hello.Throttling = rapid.Bool().Draw(rt, "aware")
		concurrency := rapid.IntRange(1, 10).Draw(rt, "concurrency")
		moves := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) move {
			return move{
				producer: rapid.Uint64Range(1, 4).Draw(rt, "producer"),
				size:     rapid.IntRange(0, 6000).Draw(rt, "size"),
				wait:     time.Duration(rapid.IntRange(0, 20).Draw(rt, "wait")) * time.Millisecond,
			}
		}), 1, 120).Draw(rt, "moves")
		synctest.Test(t, func(t *testing.T) {
			playMoves(t, limits, concurrency, hello, moves)
		})
	})
}

// playMoves plays one drawn case.
func playMoves(t *testing.T, limits pulsargate.Limits, concurrency int, hello pulsarwire.Connect, moves []move) {
	t.Helper()
	policy := &limiter.Policy{Default: limiter.PartitionPolicy{
		NewLimit: func() limiter.Limit { return fixed(concurrency) }, QueueDepth: 3, MaxWait: 50 * time.Millisecond,
	}}
	p := play(t, pulsargate.Options{Limits: limits}, policy, hello)
	for id := range uint64(4) {
		p.client.open(id+1, "topic-"+string(rune('a'+id)))
	}
	stop := make(chan struct{})
	answered := make(chan struct{})
	go func() { // the broker: a receipt every millisecond
		defer close(answered)
		for n := 0; ; {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			sends := p.broker.all(pulsarwire.TypeSend)
			if n < len(sends) {
				m, _ := pulsarwire.DecodeSend(sends[n].Body)
				p.broker.write(receipt(m.ProducerID, m.SequenceID))
				n++
			}
		}
	}()
	sizes := map[uint64][]int{}
	for _, m := range moves {
		frame := sendFrame(m.producer, uint64(len(sizes[m.producer])), m.size)
		sizes[m.producer] = append(sizes[m.producer], len(frame))
		p.client.write(frame) // blocks while the gate does not read
		time.Sleep(m.wait)
	}
	time.Sleep(30 * time.Second)
	synctest.Wait()
	close(stop)
	<-answered

	got := map[uint64]int{}
	at := map[uint64][]time.Time{}
	for _, f := range p.broker.all(pulsarwire.TypeSend) {
		m, _ := pulsarwire.DecodeSend(f.Body)
		if m.SequenceID != uint64(got[m.ProducerID]) {
			t.Fatalf("producer %d: message %d arrived in place of %d", m.ProducerID, m.SequenceID, got[m.ProducerID])
		}
		if want := sizes[m.ProducerID][m.SequenceID]; len(f.raw) != want {
			t.Fatalf("producer %d: message %d of %d bytes arrived with %d", m.ProducerID, m.SequenceID, want, len(f.raw))
		}
		got[m.ProducerID]++
		at[m.ProducerID] = append(at[m.ProducerID], f.at)
	}
	depth := max(limits.Topic.Messages*limits.Topic.BurstSeconds, 1)
	for id, want := range sizes {
		if got[id] != len(want) {
			t.Errorf("producer %d: %d of %d messages arrived", id, got[id], len(want))
		}
		for i := range at[id] {
			span := at[id][len(at[id])-1].Sub(at[id][i]).Seconds()
			if n := float64(len(at[id]) - i); n > depth+limits.Topic.Messages*span+1.001 {
				t.Errorf("producer %d: %v messages in the last %vs; its bucket has %v and %v per second", id, n, span, depth, limits.Topic.Messages)
				break
			}
		}
	}
	if s := p.server.Status(); s.HeldFrames != 0 || s.HeldBytes != 0 || s.Paused != 0 {
		t.Errorf("in the end %+v", s)
	}
}
