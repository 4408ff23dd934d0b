package bucket

import (
	"math"
	"sync"
	"sync/atomic"
)

// Lease is what a bucket of a shared rate may spend: tokens that were granted by
// whoever shares the rate out. It takes the place of the one before.
type Lease struct {
	// Spent is what [Bucket.Spent] was when the grant was asked for: tokens that
	// were spent since then come off it.
	Spent float64
	// Tokens are there at once.
	Tokens float64
	// PerSecond is how many flow in on top of them, until Until, monotonic
	// nanoseconds. After that the bucket stands still.
	PerSecond float64
	Until     int64
	// Low is how many tokens are left when Dry is told, once per lease, without
	// waiting. Dry is told too when the lease refuses a request.
	Low float64
	Dry chan<- struct{}
}

// ledger counts what a bucket spends and refuses under all its states.
type ledger struct {
	mu     sync.Mutex // guards the fields below; never held across a wait
	before float64    // tokens spent under states before last
	last   *bucketState

	missed  atomic.Int64 // thousandths of tokens that were refused
	largest atomic.Int64 // of one request that was refused since [Bucket.Unmet], thousandths
}

// dryness tells once that a bucket has run dry.
type dryness struct {
	told atomic.Bool
	out  chan<- struct{} // nil = nobody listens
}

// tell tells it, unless that is done. A nil dryness is silent.
func (d *dryness) tell() {
	if d == nil || d.told.Load() || !d.told.CompareAndSwap(false, true) {
		return
	}
	select {
	case d.out <- struct{}{}:
	default: // the listener has a call to make already, or there is none
	}
}

// turn puts a state in force. Who is deciding at that moment may still spend from
// the one before, so that its count is read once more later.
func (l *ledger) turn(b *Bucket, next *bucketState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before += l.last.used()
	l.last = b.state.Swap(next)
}

// used returns the tokens spent under the state; nil spent none.
func (s *bucketState) used() float64 {
	if s == nil {
		return 0
	}
	return float64(s.spent.Load()) / s.scale
}

// Spent returns the tokens that were spent and not refunded since the bucket was
// made, those that are owed included. It is exact for a bucket whose rate is
// shared; 0 for a nil bucket.
func (b *Bucket) Spent() float64 {
	if b == nil {
		return 0
	}
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	return b.ledger.spentLocked(b.state.Load())
}

// spentLocked returns what was spent under all states, of which now is the last.
// The ledger is held.
func (l *ledger) spentLocked(now *bucketState) float64 {
	return l.before + l.last.used() + now.used()
}

// Unmet returns the tokens of the requests that were refused for want of them since
// the bucket was made, and those of the dearest one since the last call, 0 when
// there was none. Only a shared rate counts them.
func (b *Bucket) Unmet() (missed, dearest float64) {
	if b == nil {
		return 0, 0
	}
	return float64(b.ledger.missed.Load()) / 1000, float64(b.ledger.largest.Swap(0)) / 1000
}

// Dry reports whether the lease in force has told that it runs dry.
func (b *Bucket) Dry() bool {
	d := b.state.Load().dry
	return d != nil && d.told.Load()
}

// Miss notes a request of n tokens that was refused for want of them, and reports
// whether the rate is shared: otherwise nothing is noted.
func (b *Bucket) Miss(n float64) bool {
	if b.Rate().Sharers == 0 {
		return false
	}
	cost := bounded(math.Ceil(min(n, MaxCost) * 1000))
	b.ledger.missed.Add(cost)
	if cost > b.ledger.largest.Load() {
		b.ledger.largest.Store(cost) // one of several at once: the next one will tell
	}
	b.state.Load().dry.tell()
	return true
}

// Each returns how many ns a token takes to flow in.
func (b *Bucket) Each() float64 { return b.state.Load().perToken }

// Lease has a bucket of a shared rate go on with what it was granted, as of now.
// It does nothing to one of another rate.
func (b *Bucket) Lease(now int64, l Lease) {
	if b.Rate().Sharers == 0 {
		return
	}
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	s := b.state.Load().leased(now, l.Tokens-(b.ledger.spentLocked(b.state.Load())-l.Spent), l.PerSecond, l.Until)
	s.low = bounded(l.Low * s.scale)
	s.dry = &dryness{out: l.Dry}
	b.ledger.before += b.ledger.last.used()
	b.ledger.last = b.state.Swap(s)
}

// Flow has a bucket of a shared rate go on from the tokens that are there, at
// most most, with perSecond flowing in until the given time, monotonic
// nanoseconds. It does nothing to one of another rate.
func (b *Bucket) Flow(now int64, perSecond float64, until int64, most float64) {
	if b.Rate().Sharers == 0 {
		return
	}
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	old := b.state.Load()
	s := old.leased(now, min(old.level(now), most), perSecond, until)
	s.low, s.dry = old.low, old.dry
	b.ledger.before += b.ledger.last.used()
	b.ledger.last = b.state.Swap(s)
}

// leased returns a state with the same rate that holds tokens and fills until the
// given time. It never overflows: what flows in is what was granted, and the
// units that are spent are just those that were spent.
func (s *bucketState) leased(now int64, tokens, perSecond float64, until int64) *bucketState {
	if !(perSecond >= 0) { // nor is it NaN
		perSecond = 0
	}
	perSecond = min(perSecond, maxRate)
	next := &bucketState{
		base: now, first: bounded(tokens * s.scale), span: min(max(until-now, 0), maxElapsed),
		perNano: perSecond * s.scale / 1e9, burst: s.burst, brim: maxElapsed, maxDebt: s.maxDebt, low: math.MinInt64,
		slack: s.slack, scale: s.scale, perToken: 1e9 / max(perSecond, s.rate.PerSecond/1000, 0.001), rate: s.rate,
	}
	if float64(next.span)*next.perNano > float64(maxElapsed) {
		next.span = 0
		next.first = maxElapsed
	}
	return next
}

// Sharing is what the buckets of rates that a gate shares have in common. The zero
// value is ready; it is safe for concurrent use.
type Sharing struct {
	closed atomic.Bool
	made   atomic.Uint64
}

// Close says whether a bucket holds nothing before its first lease.
func (s *Sharing) Close(closed bool) { s.closed.Store(closed) }

// Made counts the buckets that were made, or whose rate has become a shared one.
func (s *Sharing) Made() uint64 { return s.made.Load() }

// Times of a bucket that waits for its first lease.
const (
	aloneFor   = 1e9 // ns
	aloneStart = 0.2 // seconds of the gate's part that are there at once
)

// alone returns the state until the first lease: a gate's part of the rate for a
// second, and at least one token, so that the first request passes; nothing where
// nothing may pass without a lease.
func (s *bucketState) alone(now int64) *bucketState {
	if with := s.rate.Sharing; with != nil {
		with.made.Add(1)
		if with.closed.Load() {
			return s.leased(now, 0, 0, now)
		}
	}
	part := s.rate.PerSecond / float64(s.rate.Sharers)
	return s.leased(now, min(max(part*aloneStart, 1), float64(s.burst)/s.scale), part, now+aloneFor)
}

// share puts a new shared rate in force over whatever there was. What was leased
// stays so.
func (b *Bucket) share(now int64, next *bucketState, tokens float64) {
	old := b.state.Load()
	if old.rate.Sharers == 0 {
		b.ledger.mu.Lock()
		b.ledger.before, b.ledger.last = 0, nil
		alone := next.alone(now)
		alone.first = min(alone.first, bounded(tokens*alone.scale))
		b.state.Store(alone)
		b.ledger.mu.Unlock()
		return
	}
	flow := 1e9 / old.scale * old.perNano
	s := next.leased(now, min(tokens, float64(next.burst)/next.scale), flow, old.base+old.span)
	s.low, s.dry = old.low, old.dry
	b.ledger.turn(b, s)
}
