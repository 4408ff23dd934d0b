package pulsargate_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// slowTopic lets 20 messages through at once and then 40 per second, in pauses of
// half a second.
func slowTopic(method pulsargate.Method) pulsargate.Options {
	return pulsargate.Options{
		Method: method, MinPause: 500 * time.Millisecond,
		Limits: pulsargate.Limits{Topics: []topics.Limit{{
			Name: "slow", Match: "slow", PublishRate: topics.PublishRate{Messages: 40, BurstSeconds: 0.5},
		}}},
	}
}

// arrivals returns how long after start the messages of a producer arrived.
func arrivals(p *peer, producer uint64, start time.Time) []time.Duration {
	var out []time.Duration
	for _, f := range p.all(pulsarwire.TypeSend) {
		if m, _ := pulsarwire.DecodeSend(f.Body); m.ProducerID == producer {
			out = append(out, f.at.Sub(start))
		}
	}
	return out
}

// sequences returns the sequence ids of the messages of a producer, as they came.
func sequences(p *peer, producer uint64) []uint64 {
	var out []uint64
	for _, f := range p.all(pulsarwire.TypeSend) {
		if m, _ := pulsarwire.DecodeSend(f.Body); m.ProducerID == producer {
			out = append(out, m.SequenceID)
		}
	}
	return out
}

// Only the throttled producer waits, for exactly its pause; its messages keep
// their order, and a message of its neighbour that comes behind them on the same
// connection passes at once.
func TestHoldOnlyTheThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Hold), off(), unaware())
		p.client.open(1, "slow")
		p.client.open(2, "fast")
		start := time.Now()
		for i := range uint64(50) {
			p.client.write(sendFrame(1, i, 10))
			p.client.write(sendFrame(2, i, 10))
		}
		synctest.Wait()
		if got := len(arrivals(p.broker, 2, start)); got != 50 {
			t.Errorf("%d of the neighbour's 50 messages arrived at once", got)
		}
		if s := p.server.Status(); s.HeldFrames != 30 || s.HeldBytes != 30*int64(len(sendFrame(1, 1, 10))) {
			t.Errorf("Status = %+v; want 30 frames held", s)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want := slices.Concat(slices.Repeat([]time.Duration{0}, 20),
			slices.Repeat([]time.Duration{500 * time.Millisecond}, 20),
			slices.Repeat([]time.Duration{time.Second}, 10))
		if d := cmp.Diff(want, arrivals(p.broker, 1, start)); d != "" {
			t.Errorf("arrivals of the throttled producer (-want +got):\n%s", d)
		}
		if got := sequences(p.broker, 1); !slices.IsSorted(got) {
			t.Errorf("messages arrived out of order: %v", got)
		}
		if d := cmp.Diff(map[string]time.Duration{"slow topic_produce_quota_exceeded": time.Second}, p.events.throttled); d != "" {
			t.Errorf("throttled time (-want +got):\n%s", d)
		}
	})
}

// With Pause the neighbour waits too: this is what the gate is there to avoid.
func TestPauseStopsTheNeighbour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Pause), off(), aware())
		p.client.open(1, "slow")
		p.client.open(2, "fast")
		start := time.Now()
		go func() {
			p.client.publish(1, 21, 10)
			p.client.write(sendFrame(2, 0, 10))
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		if d := cmp.Diff([]time.Duration{500 * time.Millisecond}, arrivals(p.broker, 2, start)); d != "" {
			t.Errorf("arrival of the neighbour (-want +got):\n%s", d)
		}
		if n := len(p.client.all(pulsarwire.TypeThrottleProducer)); n != 0 {
			t.Errorf("%d ThrottleProducer; want none with Pause", n)
		}
	})
}

// A held producer that closes is closed after its messages.
func TestCloseProducerStaysBehindItsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Hold), off(), unaware())
		p.client.open(1, "slow")
		p.client.publish(1, 21, 10)
		p.client.command(pulsarwire.TypeCloseProducer, pulsarwire.CloseProducer{ProducerID: 1, RequestID: 9}.Append(nil))
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeCloseProducer)); n != 0 {
			t.Fatal("CLOSE_PRODUCER overtook a held message")
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		all := p.broker.all(0)
		if n := len(all); all[n-1].Type != pulsarwire.TypeCloseProducer || all[n-2].Type != pulsarwire.TypeSend {
			t.Errorf("the last two commands are %d, %d; want SEND, CLOSE_PRODUCER", all[n-2].Type, all[n-1].Type)
		}
		p.broker.command(pulsarwire.TypeSuccess, pulsarwire.AppendRequestID(nil, 9))
		synctest.Wait()
		if n := p.server.Status().Producers; n != 0 {
			t.Errorf("%d producers after the last was closed", n)
		}
	})
}

// When the broker closes a producer, its client sends again all that has no
// receipt. What is held must not be sent too.
func TestHeldFramesGoWithTheirProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Hold), off(), unaware())
		p.client.open(1, "slow")
		p.client.publish(1, 30, 10)
		synctest.Wait()
		p.broker.command(pulsarwire.TypeCloseProducer, pulsarwire.CloseProducer{
			ProducerID: 1, RequestID: 5, AssignedURL: "pulsar://elsewhere:6650",
		}.Append(nil))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(arrivals(p.broker, 1, time.Now())); n != 20 {
			t.Errorf("%d messages arrived; want the 20 from before the close", n)
		}
		if s := p.server.Status(); s.HeldFrames != 0 || s.HeldBytes != 0 || s.Producers != 0 {
			t.Errorf("Status = %+v; want nothing held, no producer", s)
		}
		closes := p.client.all(pulsarwire.TypeCloseProducer)
		if len(closes) != 1 {
			t.Fatalf("%d CLOSE_PRODUCER at the client; want 1", len(closes))
		}
		if m, _ := pulsarwire.DecodeCloseProducer(closes[0].Body); m.AssignedURL != "" {
			t.Errorf("the client is sent to %q, around the gate", m.AssignedURL)
		}
	})
}

// At the bound on pending messages the gate stops reading, and goes on at half.
func TestPendingBoundPausesUntilHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{Limits: pulsargate.Limits{MaxPending: 4}}, off(), aware())
		p.client.open(1, "t")
		go func() {
			p.client.publish(1, 6, 10)
		}()
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeSend)); n != 4 {
			t.Fatalf("%d messages in flight; want 4", n)
		}
		notices := p.client.all(pulsarwire.TypeThrottleProducer)
		if len(notices) != 1 {
			t.Fatalf("%d ThrottleProducer; want 1", len(notices))
		}
		got, _ := pulsarwire.DecodeThrottleProducer(notices[0].Body)
		want := pulsarwire.ThrottleProducer{RequestID: 1, ProducerID: 1, Reason: pulsarwire.ConnectionPendingMessagesBreach}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("notice (-want +got):\n%s", d)
		}
		p.broker.command(pulsarwire.TypePing, nil) // answered although the client is not read
		p.broker.write(receipt(1, 0))
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeSend)); n != 4 {
			t.Errorf("%d messages after one receipt; want still 4: reading resumes at half", n)
		}
		if n := len(p.broker.all(pulsarwire.TypePong)); n != 1 {
			t.Errorf("%d PONG while paused; want 1", n)
		}
		p.broker.write(receipt(1, 1))
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeSend)); n != 6 {
			t.Errorf("%d messages at half; want 6", n)
		}
	})
}

// What is held is bounded per connection and over the gate; at the bound the
// gate stops reading and loses nothing.
func TestHeldBytesAreBounded(t *testing.T) {
	size := len(sendFrame(1, 0, 1000))
	for name, limits := range map[string]pulsargate.Limits{
		"connection": {MaxHeldBytes: 3 * size},
		"gate":       {MaxGateHeldBytes: 3 * size},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := slowTopic(pulsargate.Hold)
				limits.Topics = o.Limits.Topics
				o.Limits = limits
				p := play(t, o, off(), unaware())
				p.client.open(1, "slow")
				go func() {
					p.client.publish(1, 60, 1000)
				}()
				for range 40 {
					synctest.Wait()
					if s := p.server.Status(); s.HeldBytes > int64(3*size) {
						t.Fatalf("%d bytes held; want at most %d", s.HeldBytes, 3*size)
					}
					time.Sleep(100 * time.Millisecond)
				}
				got := sequences(p.broker, 1)
				if len(got) != 60 || !slices.IsSorted(got) {
					t.Errorf("arrived: %v; want 0 to 59 in order", got)
				}
				if p.events.counts()[pulsargate.EventPaused] == 0 {
					t.Error("reading was never paused")
				}
			})
		})
	}
}

// A permit is held from SEND to receipt; the producer without one waits alone,
// and goes on with the next receipt.
func TestConcurrencyHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &limiter.Policy{Default: limiter.PartitionPolicy{
			NewLimit: func() limiter.Limit { return fixed(2) }, QueueDepth: 10, MaxWait: time.Minute,
		}}
		p := play(t, pulsargate.Options{}, policy, aware())
		p.client.open(1, "a")
		p.client.open(2, "b")
		p.client.publish(1, 3, 10)
		p.client.write(sendFrame(2, 0, 10))
		synctest.Wait()
		if got := sequences(p.broker, 1); len(got) != 2 {
			t.Errorf("%d messages in flight on a; want 2", len(got))
		}
		if got := sequences(p.broker, 2); len(got) != 1 {
			t.Errorf("%d messages in flight on b; want 1", len(got))
		}
		time.Sleep(700 * time.Millisecond)
		p.broker.write(receipt(1, 0))
		synctest.Wait()
		if got := sequences(p.broker, 1); len(got) != 3 {
			t.Errorf("%d messages on a after a receipt; want 3", len(got))
		}
		notices := p.client.all(pulsarwire.TypeThrottleProducer)
		if len(notices) != 1 {
			t.Fatalf("%d ThrottleProducer; want 1", len(notices))
		}
		n, _ := pulsarwire.DecodeThrottleProducer(notices[0].Body)
		if n.Reason != pulsarwire.BrokerProduceQuotaExceeded || n.PauseMillis != 0 {
			t.Errorf("notice %+v; want the broker's quota, pauseForMillis 0", n)
		}
		if d := p.events.throttled["default broker_produce_quota_exceeded"]; d != 700*time.Millisecond {
			t.Errorf("throttled for %v; want 700ms", d)
		}
	})
}

// What is released counts towards the bound on messages without a receipt.
func TestPendingBoundHoldsForWhatWasHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := slowTopic(pulsargate.Hold)
		o.Limits.Topics[0].Messages, o.Limits.MaxPending = 8, 8
		p := play(t, o, off(), unaware())
		p.client.open(1, "slow")
		p.client.open(2, "t")
		p.client.publish(1, 7, 10) // four pass, three are held
		p.client.publish(2, 4, 10)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeSend)); n != 8 {
			t.Errorf("%d messages without a receipt; want 8", n)
		}
		p.broker.store(2, 4)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := sequences(p.broker, 1); len(got) != 7 {
			t.Errorf("%d messages arrived after receipts; want all 7", len(got))
		}
	})
}

// A batch that is larger than the limiter's bucket is deep pays in full, also
// when it had to wait for its turn.
func TestLargeBatchesPayInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &limiter.Policy{Default: limiter.PartitionPolicy{Rate: limiter.Rate{PerSecond: 10, QueueDepth: 1000}}}
		p := play(t, pulsargate.Options{}, policy, unaware())
		p.client.open(1, "t")
		start := time.Now()
		for i := range uint64(4) {
			p.client.write(pulsarwire.AppendSendFrame(nil, pulsarwire.Send{ProducerID: 1, SequenceID: i, NumMessages: 100},
				pulsarwire.Metadata{ProducerName: "p", SequenceID: i, PublishTime: 1}, nil))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []time.Duration{0, 9100 * time.Millisecond, 19100 * time.Millisecond, 29100 * time.Millisecond}
		if d := cmp.Diff(want, arrivals(p.broker, 1, start)); d != "" {
			t.Errorf("batches of 100 at 10 messages per second (-want +got):\n%s", d)
		}
	})
}

// fixed is a limit that does not move.
type fixed int

func (f fixed) Current() int                          { return int(f) }
func (fixed) Observe(int64, time.Duration, int, bool) {}

// A producer that is asked for twice stays under its limit whatever the broker
// says to the second request, and for another topic it is not asked for at all:
// brokers keep the first.
func TestAProducerAskedForTwiceStaysLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Hold), off(), unaware())
		for id, topic := range []string{10: "slow", 11: "slow", 12: "other"} {
			if topic != "" {
				p.client.command(pulsarwire.TypeProducer,
					pulsarwire.Producer{Topic: topic, ProducerID: 1, RequestID: uint64(id)}.Append(nil))
			}
		}
		synctest.Wait()
		if got := p.client.all(pulsarwire.TypeError); len(got) != 1 {
			t.Fatalf("%d errors; want one, for the other topic", len(got))
		} else if e, _ := pulsarwire.DecodeError(got[0].Body); e.RequestID != 12 || e.Code != pulsarwire.ServiceNotReady {
			t.Errorf("%+v; want request 12 told to come again", e)
		}
		p.broker.command(pulsarwire.TypeError, pulsarwire.Error{RequestID: 11, Code: pulsarwire.ServiceNotReady}.Append(nil))
		p.broker.command(pulsarwire.TypeProducerSuccess, pulsarwire.ProducerSuccess{RequestID: 10, Name: "p"}.Append(nil))
		p.client.publish(1, 30, 10)
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeSend)); n != 20 {
			t.Errorf("%d messages passed; want 20", n)
		}
		p.client.command(pulsarwire.TypeCloseProducer, pulsarwire.CloseProducer{ProducerID: 1, RequestID: 13}.Append(nil))
		p.client.open(1, "slow") // its end is held: the broker would still see the old one
		p.broker.command(pulsarwire.TypeSuccess, pulsarwire.AppendRequestID(nil, 13))
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeProducer)); n != 2 {
			t.Errorf("%d producers asked for; want the first 2", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeCloseProducer)); n != 1 {
			t.Errorf("%d ends forwarded; want 1, behind what was held", n)
		}
		p.client.open(1, "other")
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeProducer)); n != 3 {
			t.Errorf("%d producers asked for; want a third once the end was forwarded", n)
		}
	})
}
