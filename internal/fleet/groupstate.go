package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// Settings are what a [Group] can be told anew while it runs. The zero value
// works.
type Settings struct {
	Interval time.Duration // between two calls; 0 = 200 ms
	Lease    time.Duration // how long a share holds after the call that was answered last; 0 = 2 s, at least twice the interval
	Gates    int           // how many there are: what those may spend that the group does not see is kept back; 0 = as many as were seen
	Fallback Fallback      // "" = fair
}

// withDefaults fills in the defaults.
func (s Settings) withDefaults() Settings {
	if s.Interval <= 0 {
		s.Interval = 200 * time.Millisecond
	}
	if s.Lease <= 0 {
		s.Lease = 2 * time.Second
	}
	s.Lease = max(s.Lease, 2*s.Interval)
	s.Gates = max(s.Gates, 1)
	if s.Fallback == "" {
		s.Fallback = Fair
	}
	return s
}

// keepsBack reports whether a gate without a lease goes on spending, so that the
// others leave its part alone.
func (s *Settings) keepsBack() bool { return s.Fallback == Fair || s.Fallback == Share }

// tick is how often a group looks at its buckets.
func (s *Settings) tick() time.Duration { return s.Interval / 4 }

// jitter is the share of an interval by which calls are spread.
const jitter = 0.1

// Buckets calls yield with every bucket whose rate the group shares: a name that
// all gates call it by, and the name that metrics may carry.
type Buckets func(yield func(name, label string, b *limiter.Bucket) bool)

// book is one gate's state of its group. It knows no time but what it is told
// and no network: that is the business of [Group]. It is not safe for concurrent
// use.
type groupState struct {
	Settings

	id, name string
	buckets  Buckets
	limits   Limits           // nil = none
	sharing  *limiter.Sharing // nil = none
	shares   []sharedLimit
	dry      chan struct{}
	rand     func() float64 // uniform in [0, 1)

	quotas map[string]*quota
	order  []string // names, in the order in which they came
	active []*quota // looked at every time
	idle   []*quota // that nobody asks for: looked at now and then
	swept  int      // which of these was looked at last
	lists
	rates rates
	// failing are the quotas that the group does not answer for, limitProblem why it
	// does not for some limit.
	failing      map[*quota]bool
	limitProblem string
	shards       int   // over which the keys of quotas are spread
	listed       int64 // until when all gates are listed
	calls
}

// lists is when the buckets and the idle quotas were gone through. Times are
// monotonic ns.
type lists struct {
	listNow  bool   // there may be other buckets
	made     uint64 // buckets at the last list
	listedAt int64
	scan     bool // some lease has told that it runs dry
	scanned  int64
}

// calls are a gate's calls to its group: when it made them, when it has to make the
// next one, and who was there. Times are monotonic ns.
type calls struct {
	begun   int64
	called  int64         // when the last one was sent
	heard   int64         // when the one that was answered last was sent
	ever    bool          // some was answered
	live    int           // gates that were there then
	gates   int           // and those that are expected, or fell silent
	pace    time.Duration // between two calls: the interval, or more in a large group
	members []status.FleetGate
	next    int64
	soon    int64 // when a quota that had to wait may ask again
}

// newBook returns the state of a gate that knows of nobody yet.
func newBook(now int64, id, name string, s Settings, buckets Buckets) *groupState {
	return &groupState{
		Settings: s.withDefaults(), id: id, name: name, buckets: buckets, dry: make(chan struct{}, 1),
		rand: rand.Float64, quotas: map[string]*quota{}, failing: map[*quota]bool{}, rates: rates{name: name}, shards: 1,
		calls: calls{heard: now, begun: now, next: now, soon: math.MaxInt64, pace: s.withDefaults().Interval},
	}
}

// span is for how long tokens are granted: a call may come late.
func (b *groupState) span() time.Duration { return b.pace + b.pace/2 }

// lease is for how long a share holds.
func (b *groupState) lease() time.Duration { return max(b.Lease, 2*b.pace) }

// What a call costs Redis, about, and how much of one of its processors a group
// may take before its gates call less often.
const (
	callCost  = 15 * time.Microsecond
	quotaCost = 25 * time.Microsecond
	redisPart = 0.35
	maxPace   = 3 * time.Second
)

// stretch sets the time between two calls for so many quotas.
func (b *groupState) stretch(calls, asks int) {
	cost := time.Duration(calls)*callCost + time.Duration(asks)*quotaCost
	b.pace = max(b.Interval, min(time.Duration(float64(cost)*float64(b.live)/redisPart), maxPace))
}

// shardOf returns where the keys of a quota lie.
func (b *groupState) shardOf(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	return int(h.Sum32() % uint32(b.shards))
}

// look reads the buckets, and keeps them filled while the group is silent.
func (b *groupState) look(now int64) {
	b.lookAtLimits(now)
	b.list(now)
	if b.rates.ended(now) {
		b.ratesChanged(now)
	}
	lost := b.lost(now) || b.closed(now)
	b.close(now)
	b.sweep(now)
	p := fallbackState{interval: b.Interval, tick: b.tick(), gates: b.known(), fallback: b.Fallback, rates: &b.rates}
	active := b.active[:0]
	for _, q := range b.active {
		q.look(now, q.bucket)
		q.goOn(now, lost || q.open > 0 && now-q.open > int64(b.span()), p) // others may be answered, and this one not
		if q.asleep() {
			b.idle = append(b.idle, q)
		} else {
			active = append(active, q)
		}
	}
	clear(b.active[len(active):])
	b.active = active
}

// Times of the lists of quotas.
const (
	listEvery  = 30 * time.Second      // all buckets are listed, at least
	listCost   = 10 * time.Microsecond // between two lists, per quota: each takes a tenth of that
	sweepEvery = 2 * time.Second       // every idle quota is looked at
	scanCost   = 2 * time.Microsecond  // between two scans of the idle quotas, per quota
)

// list takes the buckets that there are: where it is not told that some were made,
// every time.
func (b *groupState) list(now int64) {
	if b.sharing != nil {
		made := b.sharing.Made()
		asked := b.listNow || made != b.made && now-b.listedAt >= int64(listCost)*int64(len(b.order)) || now-b.listedAt >= int64(listEvery)
		if !asked {
			return
		}
		b.made = made
	}
	b.listNow, b.listedAt = false, now
	for _, q := range b.quotas {
		q.present = false
	}
	b.buckets(func(name, label string, bucket *limiter.Bucket) bool {
		q := b.quotas[name]
		if q == nil {
			q = b.newQuota(name, label)
			b.next = now
			b.active = append(b.active, q)
		}
		q.present = true
		if q.bucket != bucket {
			q.look(now, bucket)
			q.changed = true // one that sleeps is looked at again
		}
		return true
	})
	gone := func(q *quota) bool { return !q.present }
	b.active, b.idle = slices.DeleteFunc(b.active, gone), slices.DeleteFunc(b.idle, gone)
	b.order = slices.DeleteFunc(b.order, func(name string) bool {
		q := b.quotas[name]
		if q.present {
			return false
		}
		delete(b.quotas, name)
		delete(b.failing, q)
		return true
	})
}

// newQuota enters a quota.
func (b *groupState) newQuota(name, label string) *quota {
	key := keyOf(name)
	q := &quota{
		key: key, label: label, setting: settingField(name), override: overrideField(name), shard: b.shardOf(key),
		quotaDemand: quotaDemand{piece: 1, demand: -1}, standing: standing{mode: FairMode},
	}
	b.quotas[name] = q
	b.order = append(b.order, name)
	return q
}

// sweep looks at some of the idle quotas, and at all whose lease has told that it
// runs dry, and takes those back that have something to tell. Where nothing passes
// without a lease it takes all back, whose tokens end.
func (b *groupState) sweep(now int64) {
	if b.closed(now) {
		b.active, b.idle = append(b.active, b.idle...), nil
		return
	}
	wake := func(i int) {
		last := len(b.idle) - 1
		b.active = append(b.active, b.idle[i])
		b.idle[i], b.idle[last] = b.idle[last], nil
		b.idle = b.idle[:last]
	}
	if b.scan && now-b.scanned >= int64(scanCost)*int64(len(b.idle)) {
		b.scan, b.scanned = false, now
		for i := len(b.idle) - 1; i >= 0; i-- {
			if b.idle[i].bucket.Dry() {
				wake(i)
			}
		}
	}
	some := (len(b.idle)*int(b.tick()) + int(sweepEvery) - 1) / int(sweepEvery)
	for range some {
		if len(b.idle) == 0 {
			return
		}
		b.swept = (b.swept + 1) % len(b.idle)
		if q := b.idle[b.swept]; q.changed || q.awake() || q.due(now) {
			wake(b.swept)
		}
	}
}

// ranDry has the next look find the quota whose lease has told that it runs dry.
func (b *groupState) ranDry() { b.scan = true }

// closed reports whether nothing passes without a lease, and none is to be had.
func (b *groupState) closed(now int64) bool { return b.Fallback == Closed && (!b.ever || b.lost(now)) }

// close has buckets that are made from now on hold nothing when nothing passes
// without a lease.
func (b *groupState) close(now int64) {
	if b.sharing != nil {
		b.sharing.Close(b.closed(now))
	}
}

// known returns how many gates there are, as far as this one knows.
func (b *groupState) known() int {
	if b.ever {
		return max(b.gates, 1)
	}
	return b.Gates
}

// lost reports whether nothing was heard of the group for longer than a grant
// lasts.
func (b *groupState) lost(now int64) bool { return now-b.heard > int64(b.span()) }

// wantsCall reports whether a call is due: the interval is over, or earlier when
// a bucket ran dry and the last call is not of just now.
func (b *groupState) wantsCall(now int64, dry bool) (due, early bool) {
	if now >= b.next {
		return true, false
	}
	early = dry && now-b.called >= int64(b.pace/4) || now >= b.soon
	return early, early
}

// prepare words a call, in as many runs of the script as it takes; at least one,
// so that the group hears of this gate. Before the interval is over only quotas
// in need ask, and there is none when none is.
func (b *groupState) prepare(now int64, early, leaving bool) []call {
	b.soon = math.MaxInt64
	var calls []call
	last := make([]int, b.shards) // call per shard, plus one
	add := func(shard int) {
		calls = append(calls, b.empty(shard, leaving))
		last[shard] = len(calls)
	}
	if !early {
		for shard := range b.shards { // the group hears of this gate, and every shard of somebody
			add(shard)
		}
		calls[0].hello = 1
		if now < b.listed {
			calls[0].hello = 2
		}
	}
	asks := 0
	asking := b.active
	if leaving {
		asking = slices.Concat(b.active, b.idle)
	}
	for _, q := range asking {
		if !leaving && (now < q.notYet || early && !q.bucket.Dry() || !q.due(now)) {
			continue
		}
		if at := last[q.shard]; at == 0 || len(calls[at-1].asks) == maxPerCall {
			add(q.shard)
		}
		c := &calls[last[q.shard]-1]
		c.asks = append(c.asks, q.ask(now, &b.rates))
		asks++
		if q.open == 0 {
			q.open = now
		}
	}
	if len(calls) == 0 {
		return nil
	}
	b.called = now
	if !early {
		b.stretch(len(calls), asks)
		b.next = now + int64(float64(b.pace)*(1-jitter+2*jitter*b.rand()))
		for i := range calls {
			calls[i].interval, calls[i].span, calls[i].lease = b.pace, b.span(), b.lease()
		}
	}
	return calls
}

// empty returns a call without a quota.
func (b *groupState) empty(shard int, leaving bool) call {
	return call{
		id: b.id, name: b.name, interval: b.pace, span: b.span(), lease: b.lease(), shard: shard,
		expected: b.Gates, leaving: leaving, live: max(b.live, 1), known: b.known(), keepBack: b.keepsBack(),
	}
}

// landed takes what one run answered that was sent at sent.
func (b *groupState) landed(now, sent int64, c *call, a *answer) {
	b.heard, b.ever = sent, true
	if c.hello > 0 {
		b.live, b.gates = max(a.live, 1), max(a.gates, a.live, 1)
		b.rates.heardVersion, b.rates.heardBorn = a.version, a.born
	}
	if c.hello > 1 {
		b.members = a.listed
	}
	for i := range c.asks {
		q := c.asks[i].quota
		if !q.present {
			continue // it is no more
		}
		if q.problem = a.grants[i].problem; q.problem != "" {
			b.failing[q] = true
			continue
		}
		delete(b.failing, q)
		q.granted(now, sent, &c.asks[i], &a.grants[i], c, b.dry)
		if q.notYet > now { // spread, so that those who wait do not come together
			q.notYet += int64(float64(q.notYet-now) * 0.5 * b.rand())
			b.soon = min(b.soon, max(q.notYet, now+int64(b.Interval/16)))
		}
	}
}

// ratesChanged has the quotas whose rate is another one by now ask at once,
// however long they were to wait.
func (b *groupState) ratesChanged(now int64) {
	for _, q := range b.quotas {
		if _, _, version := b.rates.inForce(now, q.setting, q.override); version != q.version {
			q.notYet, q.changed, b.next = 0, true, now
		}
	}
	b.idle = slices.DeleteFunc(b.idle, func(q *quota) bool {
		if q.changed {
			b.active = append(b.active, q)
		}
		return q.changed
	})
}

// problem returns why some quota is not answered; "" = all are.
func (b *groupState) problem() string {
	for q := range b.failing {
		return fmt.Sprintf("%d quotas are not answered, one of %s: %s", len(b.failing), q.label, q.problem)
	}
	return b.limitProblem
}

// mode is what the gate as a whole goes by.
func (b *groupState) mode(now int64) Mode {
	switch {
	case b.ever && !b.lost(now) && b.problem() != "":
		return Partly
	case b.ever && !b.lost(now):
		return Leased
	case b.ever && now-b.heard < int64(b.Lease):
		return Kept
	case !b.ever && !b.lost(now) && b.Fallback != Closed:
		return Kept // it has just begun
	case b.Fallback == Share:
		return ShareMode
	case b.Fallback == Closed:
		return ClosedMode
	case b.Fallback == Open:
		return OpenMode
	default:
		return FairMode
	}
}

// keyOf returns what stands for a name in a key of Redis: the name itself where
// it is short and plain.
func keyOf(name string) string {
	plain := strings.IndexFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '{' || r == '}'
	}) < 0
	if plain && len(name) <= 80 && name != "" {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "#" + hex.EncodeToString(sum[:16])
}
