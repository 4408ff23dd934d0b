package topics

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// defaultLabel labels the topics that no [Limit] matches.
const defaultLabel = "default"

// Topic is one topic and what its messages pay.
type Topic struct {
	Name Name // constant
	refs int  // producers; guarded by Table.mu
	rule atomic.Pointer[Rule]
}

// Rule is what the configuration says about one topic.
type Rule struct {
	Label  string // of the topic in metrics
	meters []Meter
}

// Rule returns what the messages of the topic pay at present. Safe for concurrent
// use.
func (t *Topic) Rule() *Rule { return t.rule.Load() }

// Bill appends what a message owes to every meter. One that costs more than a
// bucket can hold passes when it is full and leaves a debt, or it could never
// pass.
func (r *Rule) Bill(to limiter.Bill, messages, size int) limiter.Bill {
	for i := range r.meters {
		m := &r.meters[i]
		to = append(to, limiter.Due{Bucket: m.bucket, Tokens: m.Cost(messages, size), Owe: true})
	}
	return to
}

// Pay pays a bill of this rule, or says which meter refuses and for how long; nil
// = none does. One of a topic or a group refuses for minPause at least.
func (r *Rule) Pay(now int64, bill limiter.Bill, minPause time.Duration, paid *limiter.Receipt) (wait time.Duration, refused *Meter) {
	for i := range r.meters {
		if wait := r.meters[i].resumeAt.Load() - now; wait > 0 {
			return r.meters[i].refuse(now, time.Duration(wait), minPause)
		}
	}
	receipt, wait, empty := bill.Pay(now, limiter.NoWait)
	if empty == nil {
		*paid = receipt
		return 0, nil
	}
	i := slices.IndexFunc(r.meters, func(m Meter) bool { return m.bucket == empty })
	return r.meters[i].refuse(now, wait, minPause)
}

// Rates are what a table enforces.
type Rates struct {
	Gate   PublishRate // of all topics together
	Topic  PublishRate // of each topic that no entry of Topics matches
	Topics []Limit
	Groups []Group
	// MaxTopics bounds the topics whose rates are kept apart; further ones share one.
	MaxTopics int
}

// Table is a bounded table of topics. It is safe for concurrent use.
type Table struct {
	mu       sync.Mutex // guards the fields below; never held across a wait
	limits   Rates
	gate     []Meter
	groups   map[string][]Meter
	known    map[string]*Topic
	overflow *Topic // serves what does not fit
	sweepAt  int64  // monotonic ns before which no sweep is tried
}

// New returns an empty table that enforces l as of now, in monotonic ns.
func New(l Rates, now int64) *Table {
	t := &Table{known: map[string]*Topic{}, overflow: &Topic{Name: Parse("overflow")}}
	t.Apply(l, now)
	return t
}

// Apply changes the limits. Buckets that go on existing keep their tokens.
func (t *Table) Apply(l Rates, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits = l
	t.gate = meters(t.gate, l.Gate, [2]string{GateMessages, GateBytes}, pulsarwire.BrokerProduceQuotaExceeded, now)
	groups := map[string][]Meter{}
	for _, g := range l.Groups {
		groups[g.Name] = meters(t.groups[g.Name], g.PublishRate,
			[2]string{GroupMessages, GroupBytes}, pulsarwire.ResourceGroupProduceQuotaExceeded, now)
	}
	t.groups = groups
	for _, known := range t.known {
		t.ruleLocked(known, now)
	}
	t.ruleLocked(t.overflow, now)
}

// Join returns the state of a topic for one more producer as of now, in monotonic
// ns: one that all share where there is no room for another. [Table.Leave] is owed
// for it.
func (t *Table) Join(name Name, now int64) *Topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.known[name.Full]
	if known == nil {
		if len(t.known) >= t.limits.MaxTopics && now >= t.sweepAt {
			t.sweepLocked(now)
			t.sweepAt = now + int64(time.Second)
		}
		if len(t.known) >= t.limits.MaxTopics {
			return t.overflow
		}
		known = &Topic{Name: name}
		t.ruleLocked(known, now)
		t.known[name.Full] = known
	}
	known.refs++
	return known
}

// Leave is called when a producer is gone. The topic stays for as long as its
// buckets are not full, or reconnecting would refill them.
func (t *Table) Leave(known *Topic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known.refs--
}

// Size returns the number of topics.
func (t *Table) Size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known)
}

// sweepLocked forgets the topics that nobody would miss.
func (t *Table) sweepLocked(now int64) {
	for name, known := range t.known {
		if known.refs <= 0 && !slices.ContainsFunc(known.rule.Load().meters, func(m Meter) bool {
			return m.bucket.Tokens(now) < m.bucket.Burst()
		}) {
			delete(t.known, name)
		}
	}
}

// ruleLocked decides what the messages of a topic pay.
func (t *Table) ruleLocked(known *Topic, now int64) {
	rule := &Rule{Label: defaultLabel}
	rate := t.limits.Topic
	for _, l := range t.limits.Topics {
		if known.Name.Matches(l.Match) {
			rule.Label, rate = l.Name, l.PublishRate
			break
		}
	}
	var old []Meter
	if r := known.rule.Load(); r != nil {
		old = r.meters
	}
	rule.meters = meters(old, rate, [2]string{TopicMessages, TopicBytes},
		pulsarwire.TopicProduceQuotaExceeded, now)
	for _, g := range t.limits.Groups {
		if slices.ContainsFunc(g.Match, known.Name.Matches) {
			rule.meters = append(rule.meters, t.groups[g.Name]...)
		}
	}
	rule.meters = append(rule.meters, t.gate...)
	known.rule.Store(rule)
}
