package fleet

import (
	"crypto/sha256"
	"encoding/hex"
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
	Gates    int           // how many are expected before any was seen; 0 = 1
	Fallback Fallback      // "" = fair
	// Version of the rates that there are from the beginning, milliseconds of the
	// wall clock: where gates differ, the highest wins. One that changes later is
	// newer.
	Version int64
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

// span is for how long tokens are granted: a call may come late.
func (s *Settings) span() time.Duration { return s.Interval + s.Interval/2 }

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
type book struct {
	Settings

	id, name string
	buckets  Buckets
	limits   Limits // nil = none
	shares   []sharedLimit
	dry      chan struct{}
	rand     func() float64 // uniform in [0, 1)

	quotas map[string]*quota
	order  []string // names, in the order in which they came
	calls
}

// calls are a gate's calls to its group: when it made them, when it has to make the
// next one, and who was there. Times are monotonic ns.
type calls struct {
	begun   int64
	called  int64 // when the last one was sent
	heard   int64 // when the one that was answered last was sent
	ever    bool  // some was answered
	gates   int   // that were there then
	members []status.FleetGate
	next    int64
	soon    int64 // when a quota that had to wait may ask again
}

// newBook returns the state of a gate that knows of nobody yet.
func newBook(now int64, id, name string, s Settings, buckets Buckets) *book {
	return &book{
		Settings: s.withDefaults(), id: id, name: name, buckets: buckets, dry: make(chan struct{}, 1),
		rand: rand.Float64, quotas: map[string]*quota{}, calls: calls{heard: now, begun: now, next: now, soon: math.MaxInt64},
	}
}

// look reads the buckets, and keeps them filled while the group is silent.
func (b *book) look(now int64) {
	b.lookAtLimits(now)
	for _, q := range b.quotas {
		q.present = false
	}
	b.buckets(func(name, label string, bucket *limiter.Bucket) bool {
		q := b.quotas[name]
		if q == nil {
			q = &quota{key: keyOf(name), label: label, appetite: appetite{piece: 1, demand: -1}, standing: standing{mode: FairMode}, version: b.Version}
			b.quotas[name] = q
			b.order = append(b.order, name)
			b.next = now
		}
		if rate := bucket.Rate(); q.own != rate {
			if q.own.PerSecond > 0 {
				q.version = max(time.Now().UnixMilli(), q.version+1) // changed at run time: newer than any file
			}
			q.own = rate
		}
		q.look(now, bucket)
		return true
	})
	lost := b.lost(now)
	p := plight{interval: b.Interval, tick: b.tick(), gates: b.Gates, fallback: b.Fallback}
	if b.ever {
		p.gates = b.gates
	}
	b.order = slices.DeleteFunc(b.order, func(name string) bool {
		q := b.quotas[name]
		if !q.present {
			delete(b.quotas, name)
			return true
		}
		q.goOn(now, lost || q.open > 0 && now-q.open > int64(b.span()), p) // others may be answered, and this one not
		return false
	})
}

// lost reports whether nothing was heard of the group for longer than a grant
// lasts.
func (b *book) lost(now int64) bool { return now-b.heard > int64(b.span()) }

// wantsCall reports whether a call is due: the interval is over, or earlier when
// a bucket ran dry and the last call is not of just now.
func (b *book) wantsCall(now int64, dry bool) (due, early bool) {
	if now >= b.next {
		return true, false
	}
	early = dry && now-b.called >= int64(b.Interval/4) || now >= b.soon
	return early, early
}

// prepare words a call, in as many runs of the script as it takes; at least one,
// so that the group hears of this gate. Before the interval is over only quotas
// in need ask, and there is none when none is.
func (b *book) prepare(now int64, early, leaving bool) []call {
	b.soon = math.MaxInt64
	if !early {
		b.next = now + int64(float64(b.Interval)*(1-jitter+2*jitter*b.rand()))
	}
	calls := []call{b.empty(leaving)}
	for _, name := range b.order {
		q := b.quotas[name]
		if !leaving && (now < q.notYet || early && !q.bucket.Dry() || !q.due(now)) {
			continue
		}
		last := &calls[len(calls)-1]
		if len(last.asks) == maxPerCall {
			calls = append(calls, b.empty(leaving))
			last = &calls[len(calls)-1]
		}
		last.asks = append(last.asks, q.ask(now))
		if q.open == 0 {
			q.open = now
		}
	}
	if early && len(calls[0].asks) == 0 {
		return nil
	}
	b.called = now
	return calls
}

// empty returns a call without a quota.
func (b *book) empty(leaving bool) call {
	return call{
		id: b.id, name: b.name, interval: b.Interval, span: b.span(), lease: b.Lease,
		expected: b.Gates, leaving: leaving,
	}
}

// landed takes what one run answered that was sent at sent.
func (b *book) landed(now, sent int64, c *call, a *answer) {
	b.heard, b.gates, b.ever, b.members = sent, max(a.gates, 1), true, a.known
	for i := range c.asks {
		q := c.asks[i].quota
		if !q.present {
			continue // it is no more
		}
		q.granted(now, sent, &c.asks[i], &a.grants[i], c, b.dry)
		if q.notYet > now { // spread, so that those who wait do not come together
			q.notYet += int64(float64(q.notYet-now) * 0.5 * b.rand())
			b.soon = min(b.soon, max(q.notYet, now+int64(b.Interval/16)))
		}
	}
}

// mode is what the gate as a whole goes by.
func (b *book) mode(now int64) Mode {
	switch {
	case b.ever && !b.lost(now):
		return Leased
	case b.ever && now-b.heard < int64(b.Lease):
		return Kept
	case !b.ever && !b.lost(now):
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
