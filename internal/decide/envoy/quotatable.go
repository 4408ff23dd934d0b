package envoy

import (
	"sync"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/admitd/admitd/limiter"
)

const (
	maxBuckets  = 10_000                // of one Envoy
	forgetAfter = 10 * time.Minute      // a bucket that nobody used is abandoned
	demandHalf  = time.Second           // in which what a bucket was seen to want counts half; reports are averages already
	shortest    = 50 * time.Millisecond // a report of less is none: a bucket's first one
	sweepEvery  = 10 * time.Second      // between two looks for buckets that nobody uses
	fewBuckets  = 128                   // of one rate: the shares of all are found at every report
	splitCost   = 10 * time.Microsecond // for each of more: so long they are not found again
)

// ledger knows which Envoys share which rates. It is safe for concurrent use.
type quotaTable struct {
	quotas Quotas

	mu     sync.Mutex // guards what is below it; never held across a wait
	shared map[quotaName]*quota
}

// quotaName is a rate: of a partition, or of all of an ingress.
type quotaName struct {
	ingress, partition string
	whole              bool // of the ingress; partition is ""
}

// quota is a rate and the buckets that share it.
type quota struct {
	buckets []*bucket
	next    time.Time // when the shares of all may be found again
}

// bucket is a part of a quota in one Envoy.
type bucket struct {
	id      *quotav3.BucketId
	key     string // of the id
	name    quotaName
	part    string // the partition
	client  *client
	want    float64       // requests per second, decayed; < 0 = it has not reported yet
	at      time.Time     // of the last report
	every   time.Duration // between reports
	used    time.Time     // when it last had a request
	share   float64       // that it was assigned last; < 0 = none yet
	blocked bool          // it was told that nothing passes
}

// client is one Envoy.
type client struct {
	buckets map[string]*bucket // by the key of the bucket's id
	out     map[string]*action // what it must be told, by the same key
	wake    chan struct{}      // of capacity 1: there is something to tell
	swept   time.Time          // when buckets that nobody uses were looked for
	gone    bool               // its stream has ended: a report that is still being read counts for nothing
}

// action is what an Envoy must be told about a bucket.
type action struct {
	id      *quotav3.BucketId
	rate    limiter.Rate // the share; the zero Rate = everything passes
	blocked bool         // nothing does
	abandon bool
}

func newLedger(q Quotas) *quotaTable { return &quotaTable{quotas: q, shared: map[quotaName]*quota{}} }

func newClient() *client {
	return &client{buckets: map[string]*bucket{}, out: map[string]*action{}, wake: make(chan struct{}, 1)}
}

// usage is what an Envoy reports of one bucket.
type usage struct {
	id      *quotav3.BucketId
	key     string // of the id
	ingress string
	part    string // the partition
	asked   uint64 // requests, allowed or denied
	elapsed time.Duration
}

// report notes what a client has used as of now and what everybody's shares are
// from now on. ok is false for an ingress that is not known.
func (l *quotaTable) report(now time.Time, c *client, u usage) (ok bool) {
	quota, ok := l.quotas.Quota(u.ingress, u.part)
	if !ok {
		return false
	}
	name := quotaName{u.ingress, u.part, quota.Whole}
	if quota.Whole {
		name.partition = ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone {
		return true
	}
	if now.Sub(c.swept) >= sweepEvery {
		c.swept = now
		l.sweepLocked(now, c, u.key)
	}
	b := c.buckets[u.key]
	if b != nil && b.name != name { // the configuration has changed: another rate binds it
		want := *b
		l.leaveLocked(b)
		b = l.joinLocked(now, c, &u, name)
		b.want, b.at, b.every, b.used = want.want, want.at, want.every, want.used
	}
	if b == nil {
		if len(c.buckets) >= maxBuckets {
			return true // Envoy does as no_assignment_behavior says
		}
		b = l.joinLocked(now, c, &u, name)
	}
	b.count(now, &u)
	if b.blocked = quota.Blocked; b.blocked {
		b.want = 0 // what is refused anyway takes no share from others
	}
	if now.Sub(b.used) > forgetAfter {
		l.abandonLocked(b)
	}
	l.splitLocked(now, name, quota.Rate, b)
	return true
}

// sweepLocked abandons the buckets of a client that nobody has used for long, but
// for the one that is reported: Envoy says nothing of buckets that nobody asks. Who
// shared with them hears of it with its next report. l.mu is held.
func (l *quotaTable) sweepLocked(now time.Time, c *client, but string) {
	for key, b := range c.buckets {
		if key != but && now.Sub(b.used) > forgetAfter {
			l.abandonLocked(b)
		}
	}
}

// abandonLocked takes a bucket out and has its Envoy forget it. l.mu is held.
func (l *quotaTable) abandonLocked(b *bucket) {
	l.leaveLocked(b)
	b.client.tell(b.key, &action{id: b.id, abandon: true})
}

// joinLocked adds a bucket to its quota. l.mu is held.
func (l *quotaTable) joinLocked(now time.Time, c *client, u *usage, name quotaName) *bucket {
	q := l.shared[name]
	if q == nil {
		q = &quota{}
		l.shared[name] = q
	}
	b := &bucket{id: u.id, key: u.key, name: name, part: u.part, client: c, want: -1, at: now, used: now, share: -1}
	q.buckets = append(q.buckets, b)
	c.buckets[u.key] = b
	return b
}

// count takes a report into what the bucket wants. The first one only says that
// the bucket is there.
func (b *bucket) count(now time.Time, u *usage) {
	if u.asked > 0 {
		b.used = now
	}
	if u.elapsed < shortest {
		return
	}
	seen := float64(u.asked) / u.elapsed.Seconds()
	if b.want < 0 || seen > b.want {
		b.want = seen // more is wanted: at once
	} else {
		keep := 1 / (1 + u.elapsed.Seconds()/demandHalf.Seconds())
		b.want = b.want*keep + seen*(1-keep)
	}
	b.at, b.every = now, u.elapsed
}

// wanted returns what the bucket wants as of now. One that has missed two reports
// is idle: Envoy says nothing of buckets that nobody asks. So is one of which there
// was never more than the first report, once what it was assigned has run out.
func (b *bucket) wanted(now time.Time) float64 {
	silent := now.Sub(b.at)
	switch {
	case b.want > 0 && silent > 2*b.every:
		return b.want / (1 + silent.Seconds()/demandHalf.Seconds())
	case b.want < 0 && silent > assignmentTTL:
		return 0
	default:
		return b.want
	}
}

// splitLocked tells everybody whose share has changed, and the one who asked; of
// a rate that very many share only the latter, until it is time to look at all again.
// l.mu is held.
func (l *quotaTable) splitLocked(now time.Time, name quotaName, rate limiter.Rate, asked *bucket) {
	q := l.shared[name]
	if q == nil {
		return
	}
	if asked != nil && now.Before(q.next) {
		if asked.share < 0 {
			asked.share = quantised(rate.PerSecond / float64(len(q.buckets)))
		}
		asked.tell(rate)
		return
	}
	if n := len(q.buckets); n > fewBuckets {
		q.next = now.Add(time.Duration(n) * splitCost)
	}
	wants := make([]float64, len(q.buckets))
	for i, b := range q.buckets {
		wants[i] = b.wanted(now)
	}
	shares := split(rate.PerSecond, wants)
	for i, b := range q.buckets {
		if b != asked && b.share == shares[i] {
			continue
		}
		b.share = shares[i]
		b.tell(rate)
	}
}

// tell leaves word of the bucket's share of a rate. The ledger's lock is held.
func (b *bucket) tell(rate limiter.Rate) {
	rate.PerSecond = b.share
	b.client.tell(b.key, &action{id: b.id, rate: rate, blocked: b.blocked})
}

// leave takes a client out; the others share what it had.
func (l *quotaTable) leave(now time.Time, c *client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.gone = true
	for _, b := range c.buckets {
		l.leaveLocked(b)
		if quota, ok := l.quotas.Quota(b.name.ingress, b.part); ok && quota.Whole == b.name.whole {
			l.splitLocked(now, b.name, quota.Rate, nil)
		}
	}
}

// leaveLocked takes a bucket out of its quota. l.mu is held.
func (l *quotaTable) leaveLocked(b *bucket) {
	delete(b.client.buckets, b.key)
	q := l.shared[b.name]
	for i, other := range q.buckets {
		if other == b {
			q.buckets = append(q.buckets[:i], q.buckets[i+1:]...)
			break
		}
	}
	if len(q.buckets) == 0 {
		delete(l.shared, b.name)
	}
}

// tell leaves word for the client's stream. The ledger's lock is held.
func (c *client) tell(key string, a *action) {
	c.out[key] = a
	select {
	case c.wake <- struct{}{}:
	default: // it is told already that there is something
	}
}

// take returns what the client must be told.
func (l *quotaTable) take(c *client) []*action {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*action, 0, len(c.out))
	for _, a := range c.out {
		all = append(all, a)
	}
	clear(c.out)
	return all
}
