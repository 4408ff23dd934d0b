package pulsargate

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/pulsarwire"
)

// byteUnit is the number of bytes per token of a byte bucket. A bucket can owe a
// million tokens, so that a frame may exceed the burst and still be paid in full.
const byteUnit = 1024.0

// debtRoom is how many tokens a bucket may owe beyond its burst.
const debtRoom = 1_000_000

// defaultLabel labels the topics that no TopicLimit matches.
const defaultLabel = "default"

// meter is one bucket that a message has to pay.
type meter struct {
	bucket   *limiter.Bucket
	bytes    bool // counts bytes, not messages
	limit    string
	reason   pulsarwire.Reason
	resumeAt *atomic.Int64 // monotonic ns until which nobody may pay; keeps pauses whole
}

// cost returns the tokens of a message.
func (m *meter) cost(messages, size int) float64 {
	if m.bytes {
		return float64(size) / byteUnit
	}
	return float64(messages)
}

// rest has everybody wait from now on, at least as long as minPause, so that a
// meter that has run dry refills before it is asked again.
func (m *meter) rest(now int64, wait, minPause time.Duration) time.Duration {
	wait = max(wait, minPause)
	if m.resumeAt.Load() < now {
		m.resumeAt.Store(now + int64(wait))
	}
	return wait
}

// block returns the meter as what stands in the way.
func (m *meter) block() block { return block{limit: m.limit, reason: m.reason, meter: m} }

// topic is one topic and what its messages pay.
type topic struct {
	name   topicName
	refs   int // producers; guarded by topics.mu
	meters atomic.Pointer[topicRule]
}

// topicRule is what the configuration says about one topic.
type topicRule struct {
	label  string
	meters []meter
}

// bill appends what a message owes to every meter. One that costs more than a
// bucket can hold passes when it is full and leaves a debt, or it could never
// pass.
func (r *topicRule) bill(to limiter.Bill, messages, size int) limiter.Bill {
	for i := range r.meters {
		m := &r.meters[i]
		to = append(to, limiter.Due{Bucket: m.bucket, Tokens: m.cost(messages, size), Owe: true})
	}
	return to
}

// pay pays a bill of this rule, or says which meter refuses and for how long.
func (r *topicRule) pay(now int64, bill limiter.Bill, paid *limiter.Receipt) (wait time.Duration, why block, ok bool) {
	for i := range r.meters {
		if wait := r.meters[i].resumeAt.Load() - now; wait > 0 {
			return time.Duration(wait), r.meters[i].block(), false
		}
	}
	receipt, wait, refused := bill.Pay(now, -1)
	if refused == nil {
		*paid = receipt
		return 0, block{}, true
	}
	i := slices.IndexFunc(r.meters, func(m meter) bool { return m.bucket == refused })
	return wait, r.meters[i].block(), false
}

// topics is a bounded table of topics.
type topics struct {
	mu       sync.Mutex // guards the fields below; never held across a wait
	limits   Limits
	gate     []meter
	groups   map[string][]meter
	known    map[string]*topic
	overflow *topic // serves what does not fit
	sweepAt  int64  // monotonic ns before which no sweep is tried
}

// newTopics returns an empty table.
func newTopics(l Limits, now int64) *topics {
	t := &topics{known: map[string]*topic{}, overflow: &topic{name: parseTopic("overflow")}}
	t.apply(l, now)
	return t
}

// apply changes the limits. Buckets that go on existing keep their tokens.
func (t *topics) apply(l Limits, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits = l
	t.gate = meters(t.gate, l.Gate, [2]string{LimitGateMessages, LimitGateBytes}, pulsarwire.BrokerProduceQuotaExceeded, now)
	groups := map[string][]meter{}
	for _, g := range l.Groups {
		groups[g.Name] = meters(t.groups[g.Name], g.PublishRate,
			[2]string{LimitGroupMessages, LimitGroupBytes}, pulsarwire.ResourceGroupProduceQuotaExceeded, now)
	}
	t.groups = groups
	for _, known := range t.known {
		t.ruleLocked(known, now)
	}
	t.ruleLocked(t.overflow, now)
}

// join returns the state of a topic for one more producer.
func (t *topics) join(name topicName, now int64) *topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.known[name.full]
	if known == nil {
		if len(t.known) >= t.limits.MaxTopics && now >= t.sweepAt {
			t.sweepLocked(now)
			t.sweepAt = now + int64(time.Second)
		}
		if len(t.known) >= t.limits.MaxTopics {
			return t.overflow
		}
		known = &topic{name: name}
		t.ruleLocked(known, now)
		t.known[name.full] = known
	}
	known.refs++
	return known
}

// leave is called when a producer is gone. The topic stays for as long as its
// buckets are not full, or reconnecting would refill them.
func (t *topics) leave(known *topic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known.refs--
}

// size returns the number of topics.
func (t *topics) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known)
}

// sweepLocked forgets the topics that nobody would miss.
func (t *topics) sweepLocked(now int64) {
	for name, known := range t.known {
		if known.refs <= 0 && !slices.ContainsFunc(known.meters.Load().meters, func(m meter) bool {
			return m.bucket.Tokens(now) < m.bucket.Burst()
		}) {
			delete(t.known, name)
		}
	}
}

// ruleLocked decides what the messages of a topic pay.
func (t *topics) ruleLocked(known *topic, now int64) {
	rule := &topicRule{label: defaultLabel}
	rate := t.limits.Topic
	for _, l := range t.limits.Topics {
		if known.name.matches(l.Match) {
			rule.label, rate = l.Name, l.PublishRate
			break
		}
	}
	var old []meter
	if r := known.meters.Load(); r != nil {
		old = r.meters
	}
	rule.meters = meters(old, rate, [2]string{LimitTopicMessages, LimitTopicBytes},
		pulsarwire.TopicProduceQuotaExceeded, now)
	for _, g := range t.limits.Groups {
		if slices.ContainsFunc(g.Match, known.name.matches) {
			rule.meters = append(rule.meters, t.groups[g.Name]...)
		}
	}
	rule.meters = append(rule.meters, t.gate...)
	known.meters.Store(rule)
}

// meters returns the meters of one rate, with the buckets of old ones of the
// same name.
func meters(old []meter, r PublishRate, names [2]string, reason pulsarwire.Reason, now int64) []meter {
	var out []meter
	for i, perSecond := range [2]float64{r.Messages, r.Bytes / byteUnit} {
		if !(perSecond > 0) {
			continue
		}
		rate := limiter.Rate{PerSecond: perSecond, BurstSeconds: r.BurstSeconds, QueueDepth: debtRoom}
		if j := slices.IndexFunc(old, func(m meter) bool { return m.limit == names[i] }); j >= 0 {
			if old[j].bucket.Rate() != rate {
				old[j].bucket.SetRate(rate, now)
				old[j].resumeAt.Store(0)
			}
			out = append(out, old[j])
			continue
		}
		out = append(out, meter{
			bucket: limiter.NewBucket(rate, now), bytes: i == 1, limit: names[i], reason: reason, resumeAt: new(atomic.Int64),
		})
	}
	return out
}
