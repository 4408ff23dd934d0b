package pulsargate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// notices returns the ThrottleProducer that a client got.
func notices(t *testing.T, p *peer) []pulsarwire.ThrottleProducer {
	t.Helper()
	var out []pulsarwire.ThrottleProducer
	for _, f := range p.all(pulsarwire.TypeThrottleProducer) {
		m, err := pulsarwire.DecodeThrottleProducer(f.Body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// A client that announced it is told; its receipt keeps the connection flowing,
// and what it had sent before it knew is held, not forwarded.
func TestThrottleProducerWithReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Auto), off(), aware())
		p.client.open(1, "slow")
		p.client.open(2, "fast")
		start := time.Now()
		p.client.publish(1, 25, 10) // five of them on their way when the notice comes
		synctest.Wait()
		want := []pulsarwire.ThrottleProducer{{
			RequestID: 1, ProducerID: 1, Reason: pulsarwire.TopicProduceQuotaExceeded, PauseMillis: 500,
		}}
		if d := cmp.Diff(want, notices(t, p.client)); d != "" {
			t.Fatalf("notices (-want +got):\n%s", d)
		}
		time.Sleep(99 * time.Millisecond)
		p.client.command(pulsarwire.TypeThrottleProducerReceipt, pulsarwire.AppendRequestID(nil, 1))
		for i := range uint64(40) {
			time.Sleep(10 * time.Millisecond)
			p.client.write(sendFrame(2, i, 10))
		}
		synctest.Wait()
		if got := len(arrivals(p.broker, 2, start)); got != 40 {
			t.Errorf("%d of the neighbour's 40 messages arrived", got)
		}
		if got := len(arrivals(p.broker, 1, start)); got != 20 {
			t.Errorf("%d messages of the throttled producer arrived; want 20: an overshoot", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := len(arrivals(p.broker, 1, start)); got != 25 {
			t.Errorf("%d messages of the throttled producer arrived in the end; want 25", got)
		}
		if n := len(p.broker.all(pulsarwire.TypeThrottleProducerReceipt)); n != 0 {
			t.Errorf("%d receipts reached the broker, which knows nothing of them", n)
		}
		if d := cmp.Diff(map[string]int{pulsargate.EventNotified: 1, pulsargate.EventReceipt: 1}, p.events.counts()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

// Without a receipt within 100 ms the gate stops reading from the connection, as
// brokers do, until the throttling is over. What came meanwhile is held: no
// message beyond the limit is forwarded.
func TestMissingReceiptFallsBackToPausing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Auto), off(), aware())
		p.client.open(1, "slow")
		p.client.open(2, "fast")
		start := time.Now()
		p.client.publish(1, 30, 10)
		time.Sleep(90 * time.Millisecond)
		p.client.write(sendFrame(2, 0, 10)) // within the wait: passes
		time.Sleep(20 * time.Millisecond)
		go p.client.write(sendFrame(2, 1, 10)) // after it: waits
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if d := cmp.Diff([]time.Duration{90 * time.Millisecond, 500 * time.Millisecond}, arrivals(p.broker, 2, start)); d != "" {
			t.Errorf("arrivals of the neighbour (-want +got):\n%s", d)
		}
		late := 0
		for _, at := range arrivals(p.broker, 1, start) {
			if at < 500*time.Millisecond {
				late++
			}
		}
		if late != 20 {
			t.Errorf("%d messages forwarded before the pause was over; want 20", late)
		}
		p.client.command(pulsarwire.TypeThrottleProducerReceipt, pulsarwire.AppendRequestID(nil, 1))
		p.client.command(pulsarwire.TypeThrottleProducerReceipt, pulsarwire.AppendRequestID(nil, 77))
		synctest.Wait()
		want := map[string]int{
			pulsargate.EventNotified: 1, pulsargate.EventReceiptMissing: 1, pulsargate.EventPaused: 1,
			pulsargate.EventReceiptLate: 1, pulsargate.EventReceiptUnknown: 1,
		}
		if d := cmp.Diff(want, p.events.counts()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

// A client that did not announce it is never sent the command, and its frames of
// the same number are none of the gate's business.
func TestUnawareClientsAreNeverNotified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Auto), off(), unaware())
		p.client.open(1, "slow")
		p.client.publish(1, 30, 10)
		p.client.command(pulsarwire.TypeThrottleProducerReceipt, pulsarwire.AppendRequestID(nil, 1))
		synctest.Wait()
		if n := notices(t, p.client); len(n) != 0 {
			t.Errorf("notices %+v; want none", n)
		}
		if n := len(p.broker.all(pulsarwire.TypeThrottleProducerReceipt)); n != 1 {
			t.Errorf("%d unknown commands passed; want 1", n)
		}
	})
}

// Each limit names itself and the reason that clients are told.
func TestReasons(t *testing.T) {
	rate := topics.PublishRate{Messages: 1}
	bytes := topics.PublishRate{Bytes: 2048}
	for name, tc := range map[string]struct {
		limits pulsargate.Limits
		want   pulsarwire.ThrottleProducer
		limit  string
	}{
		"topic messages": {
			pulsargate.Limits{Topic: rate},
			pulsarwire.ThrottleProducer{Reason: pulsarwire.TopicProduceQuotaExceeded, PauseMillis: 1000},
			"default " + topics.TopicMessages,
		},
		"group messages": {
			pulsargate.Limits{Groups: []topics.Group{{Name: "g", Match: []string{"persistent://public/*"}, PublishRate: rate}}},
			pulsarwire.ThrottleProducer{Reason: pulsarwire.ResourceGroupProduceQuotaExceeded, PauseMillis: 1000},
			"default " + topics.GroupMessages,
		},
		"gate messages": {
			pulsargate.Limits{Gate: rate},
			pulsarwire.ThrottleProducer{Reason: pulsarwire.BrokerProduceQuotaExceeded},
			"default " + topics.GateMessages,
		},
		"topic bytes": {
			pulsargate.Limits{Topics: []topics.Limit{{Name: "t", Match: "t", PublishRate: bytes}}},
			pulsarwire.ThrottleProducer{Reason: pulsarwire.TopicProduceQuotaExceeded, PauseMillis: 3000},
			"t " + topics.TopicBytes,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := play(t, pulsargate.Options{Limits: tc.limits}, off(), aware())
				p.client.open(1, "t")
				header := len(sendFrame(1, 0, 0))
				for i := range uint64(2) { // each is twice the burst of bytes: the first leaves a debt of one burst
					p.client.write(sendFrame(1, i, 4096-header))
				}
				synctest.Wait()
				tc.want.RequestID, tc.want.ProducerID = 1, 1
				got := notices(t, p.client)
				if d := cmp.Diff([]pulsarwire.ThrottleProducer{tc.want}, got); d != "" {
					t.Errorf("notices (-want +got):\n%s", d)
				}
				if p.events.limited[tc.limit] == 0 {
					t.Errorf("limited: %v; want %q", p.events.limited, tc.limit)
				}
			})
		})
	}
}

// A limit that is raised lets go of what is held within a second, and a limit in
// shadow mode only counts.
func TestApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{Limits: pulsargate.Limits{Topic: topics.PublishRate{Messages: 0.01}}}, off(), unaware())
		p.client.open(1, "t")
		p.client.publish(1, 3, 10)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeSend)); n != 1 {
			t.Fatalf("%d messages passed; want 1", n)
		}
		p.server.SetLimits(pulsargate.Limits{})
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeSend)); n != 3 {
			t.Errorf("%d messages passed after the limit was lifted; want 3", n)
		}
	})
}

// A client is told to wait until the last message is let go that is held for it,
// not just the first, and is told again only when that becomes later. Otherwise
// what is held would grow with every pause.
func TestNoticeCoversTheBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Auto), off(), aware())
		p.client.open(1, "slow")
		send := func(from, to uint64) {
			for i := from; i < to; i++ {
				p.client.write(sendFrame(1, i, 10))
			}
			synctest.Wait()
		}
		start := time.Now()
		send(0, 21) // one is held: 500 ms
		p.client.command(pulsarwire.TypeThrottleProducerReceipt, pulsarwire.AppendRequestID(nil, 1))
		time.Sleep(500 * time.Millisecond) // 19 tokens are left
		send(21, 21+19+60)                 // 60 are held: 1.5 s
		p.client.command(pulsarwire.TypeThrottleProducerReceipt, pulsarwire.AppendRequestID(nil, 2))
		time.Sleep(510 * time.Millisecond)
		p.client.command(pulsarwire.TypeThrottleProducerReceipt, pulsarwire.AppendRequestID(nil, 3))
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		var end time.Duration // until when the client was told to wait, at the latest
		all := p.client.all(pulsarwire.TypeThrottleProducer)
		for i, n := range notices(t, p.client) {
			end = max(end, all[i].at.Sub(start)+time.Duration(n.PauseMillis)*time.Millisecond)
		}
		// The second notice may be sent when the first of the 60 is held, or the last.
		if end != 2*time.Second || len(all) > 3 {
			t.Errorf("%d notices, until %v: %+v; want at most 3, until 2s", len(all), end, notices(t, p.client))
		}
	})
}

// A message that one limit refuses costs nothing at the others: what it had paid
// is given back, however often it is asked about again.
func TestRefusedMessagesPayNothing(t *testing.T) {
	twoInAll := topics.PublishRate{Messages: 0.001, BurstSeconds: 2000}
	for name, tc := range map[string]struct {
		limits pulsargate.Limits
		policy *limiter.Policy
	}{
		"a group refuses": {pulsargate.Limits{Topic: twoInAll, Groups: []topics.Group{{
			Name: "g", Match: []string{"t"}, PublishRate: topics.PublishRate{Messages: 1},
		}}}, off()},
		"the limiter refuses": {pulsargate.Limits{Topic: twoInAll}, &limiter.Policy{Default: limiter.PartitionPolicy{
			NewLimit: func() limiter.Limit { return fixed(1) },
		}}},
		"its queue times out": {pulsargate.Limits{Topic: twoInAll}, &limiter.Policy{Default: limiter.PartitionPolicy{
			NewLimit: func() limiter.Limit { return fixed(1) }, QueueDepth: 1, MaxWait: 10 * time.Millisecond,
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := play(t, pulsargate.Options{Limits: tc.limits}, tc.policy, unaware())
				p.client.open(1, "t")
				p.client.write(sendFrame(1, 0, 1))
				p.client.write(sendFrame(1, 1, 1))
				time.Sleep(900 * time.Millisecond)
				synctest.Wait()
				if n := len(p.broker.all(pulsarwire.TypeSend)); n != 1 {
					t.Fatalf("%d messages passed; want 1", n)
				}
				p.broker.write(receipt(1, 0))
				time.Sleep(300 * time.Millisecond)
				synctest.Wait()
				if n := len(p.broker.all(pulsarwire.TypeSend)); n != 2 {
					t.Errorf("%d messages passed in the end; want 2: the topic's second token was lost", n)
				}
			})
		})
	}
}

// In shadow mode limits count and let pass; when they are off they do neither.
func TestModes(t *testing.T) {
	for mode, counted := range map[limiter.Mode]bool{limiter.Shadow: true, limiter.Off: false} {
		synctest.Test(t, func(t *testing.T) {
			p := play(t, pulsargate.Options{Limits: pulsargate.Limits{
				Mode: mode, Topic: topics.PublishRate{Messages: 1},
			}}, off(), aware())
			p.client.open(1, "t")
			p.client.publish(1, 5, 1)
			synctest.Wait()
			if n := len(p.broker.all(pulsarwire.TypeSend)); n != 5 {
				t.Errorf("%v: %d of 5 messages passed", mode, n)
			}
			if got := p.events.limited["default "+topics.TopicMessages]; (got == 4) != counted {
				t.Errorf("%v: %d messages counted", mode, got)
			}
		})
	}
}

// What a message had paid before it waited in the limiter's queue is given back
// to the buckets that it paid. Once it went to those in force when the wait was
// over, so that a reload made tokens out of nothing: here a group that came with
// it, of which every message in vain added one.
func TestRefundsGoToWhatWasPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &limiter.Policy{Default: limiter.PartitionPolicy{
			NewLimit: func() limiter.Limit { return fixed(1) }, QueueDepth: 10, MaxWait: time.Second,
		}}
		p := play(t, pulsargate.Options{}, policy, unaware())
		p.client.open(1, "t")
		p.client.open(2, "u")
		p.client.write(sendFrame(1, 0, 1))
		p.client.write(sendFrame(1, 1, 1)) // waits for the permit of the one before, for a second
		synctest.Wait()
		p.server.SetLimits(pulsargate.Limits{Groups: []topics.Group{{
			Name: "g", Match: []string{"t", "u"}, PublishRate: topics.PublishRate{Messages: 0.001, BurstSeconds: 2000}, // two in all
		}}})
		p.client.write(sendFrame(2, 0, 1))
		p.broker.write(receipt(2, 0))
		time.Sleep(1500 * time.Millisecond) // it waits in vain, and has to pay the group now
		p.broker.write(receipt(1, 0))
		time.Sleep(time.Second)
		p.client.write(sendFrame(2, 1, 1))
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeSend)) - 1; n != 2 {
			t.Errorf("%d messages passed since the group exists; want 2", n)
		}
	})
}
