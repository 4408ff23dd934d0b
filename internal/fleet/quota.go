package fleet

import (
	"math"
	"time"

	"github.com/admitd/admitd/limiter"
)

// Mode is what a gate goes by.
type Mode string

// The modes, as metrics and documents carry them.
const (
	// Leased: the group has granted what is spent.
	Leased Mode = "leased"
	// Partly: the group answers, but not for all quotas or limits of this gate.
	Partly Mode = "partly"
	// Kept: the group does not answer; the gate goes on at its last share until
	// the lease ends.
	Kept Mode = "kept"
	// FairMode, ShareMode, ClosedMode, OpenMode: the lease has ended, or there was
	// none yet; the gate goes by its [Fallback].
	FairMode   Mode = "fair"
	ShareMode  Mode = "share"
	ClosedMode Mode = "closed"
	OpenMode   Mode = "open"
)

// Modes returns every mode in a fixed order.
func Modes() []Mode { return []Mode{Leased, Partly, Kept, FairMode, ShareMode, ClosedMode, OpenMode} }

// Fallback is what a gate does without a lease. The zero value is [Fair].
type Fallback string

// The fallbacks, as the configuration spells them.
const (
	Fair   Fallback = "fair"   // its part of the rate: divided by the gates seen last, or expected
	Share  Fallback = "share"  // the share that it had last; without one, fair
	Closed Fallback = "closed" // nothing
	Open   Fallback = "open"   // everything
)

// Times of a quota at its gate.
const (
	demandRise = 100 * time.Millisecond // in which the demand follows upwards
	demandFall = time.Second            // and downwards
	pieceKept  = 10 * time.Second       // how long a dear request is saved for
	asleep     = 0.01                   // tokens per second below which nobody wants anything
	refresh    = time.Minute            // between two calls for a quota that sleeps
	maxWait    = 2 * time.Second        // that the group may have a quota wait before it asks again
)

// quota is a shared rate as this gate knows it.
type quota struct {
	key, label        string
	setting, override string // where its rate stands in the group
	shard             int
	bucket            *limiter.Bucket
	mark              bucketMark
	present           bool // seen by the last look
	base              float64
	version           float64 // of the rate that it was asked for with last
	changed           bool    // the rate is another one since then
	problem           string  // why the group does not answer for it; "" = it does

	standing
	quotaDemand
}

// standing is what the group last said of a quota.
type standing struct {
	epoch   string
	share   float64
	level   float64
	rate    float64 // in force in the group; 0 = unknown
	sharers int
	mode    Mode
	flowing bool  // the grant in force flows, and the group presumes it spent
	until   int64 // when the grant in force has run out
	ends    int64 // of the lease
	notYet  int64 // when it is worth asking again
}

// appetite is what is asked of a quota here, and what the gate has asked for.
type quotaDemand struct {
	demand   float64 // tokens per second; negative before the first look
	counted  float64 // spent and missed at the last look
	looked   int64
	piece    float64
	pieceAt  int64
	askedAt  int64 // when it was last asked for and answered
	open     int64 // when it was first asked for since; 0 = it was not
	askedFor float64
}

// spent returns the tokens that this gate has ever spent, and is not owed: a
// debt that requests wait for is settled when tokens cover it.
func (q *quota) spent(now int64) (all, ofBucket float64) {
	ofBucket = q.bucket.Spent() - math.Max(-q.bucket.Tokens(now), 0)
	return q.base + ofBucket, ofBucket
}

// look takes a bucket for the quota and measures what is asked of it.
func (q *quota) look(now int64, b *limiter.Bucket) {
	q.present = true
	if q.bucket != b {
		if q.bucket != nil {
			q.base += q.bucket.Spent()
		}
		q.bucket, q.counted, q.looked = b, 0, now
		q.mark++
		return
	}
	elapsed := time.Duration(now - q.looked)
	if elapsed <= 0 {
		q.looked = now
		return
	}
	missed, largest := b.Unmet()
	counted := b.Spent() + missed
	rate := math.Max(counted-q.counted, 0) / elapsed.Seconds()
	q.counted, q.looked = counted, now
	q.demand = math.Max(q.demand, 0)
	over := demandFall
	if rate > q.demand {
		over = demandRise
	}
	q.demand += (rate - q.demand) * (1 - math.Exp(-float64(elapsed)/float64(over)))
	if q.demand < asleep {
		q.demand = 0
	}
	if largest > q.piece || time.Duration(now-q.pieceAt) > pieceKept {
		q.piece, q.pieceAt = math.Max(largest, 1), now
	}
}

// due reports whether the quota has something to tell or to ask.
func (q *quota) due(now int64) bool {
	switch {
	case q.epoch == "" || q.changed || q.flowing || q.demand > 0:
		return true
	case q.counted != q.askedFor:
		return true
	default:
		return time.Duration(now-q.askedAt) > refresh
	}
}

// asleep reports whether nobody asks for the quota, and the group knows: it has
// tokens in hand, and its lease tells when they are spent.
func (q *quota) asleep() bool {
	return q.epoch != "" && q.mode == Leased && !q.flowing && !q.changed && q.problem == "" && q.open == 0 && q.demand == 0 && q.counted == q.askedFor
}

// awake reports whether somebody has asked for a quota that was asleep.
func (q *quota) awake() bool {
	missed, _ := q.bucket.Unmet()
	return q.bucket.Spent()+missed != q.counted
}

// ask words what is told to the group.
func (q *quota) ask(now int64, r *rates) ask {
	rate, burst, version := q.inForce(now, r)
	q.version = version
	all, ofBucket := q.spent(now)
	return ask{
		quota: q, spent: all, demand: q.demand, share: q.share, epoch: q.epoch, rate: rate, burst: burst,
		version: q.version, piece: math.Max(math.Min(math.Max(q.piece, 1), math.Min(q.bucket.Burst(), burst)), 0.001), bucket: q.mark, bucketSpent: ofBucket,
	}
}

// inForce returns the rate that holds in the group, as far as this gate knows, and
// its version; 0 = the group has not said.
func (q *quota) inForce(now int64, r *rates) (perSecond, burst, version float64) {
	perSecond, burst, version = r.inForce(now, q.setting, q.override)
	if version == 0 {
		return q.bucket.Rate().PerSecond, q.bucket.Burst(), 0
	}
	return perSecond, burst, version
}

// granted puts a grant in force that was asked for at sent.
func (q *quota) granted(now, sent int64, a *ask, g *grant, c *call, dry chan<- struct{}) {
	q.epoch, q.share, q.level, q.rate, q.sharers = g.epoch, g.share, g.level, g.rate, g.sharers
	q.askedAt, q.askedFor, q.open = sent, q.counted, 0
	q.until, q.ends, q.flowing, q.mode = sent+int64(c.span), sent+int64(c.lease), !g.atOnce, Leased
	if a.version == q.version {
		q.changed = false
	}
	q.notYet, q.problem = now+int64(min(g.wait, maxWait)), ""
	if a.bucket != q.mark {
		a.bucketSpent = 0 // another bucket by now, whose tokens all come off the grant
	}
	l := limiter.Lease{Spent: a.bucketSpent, Tokens: g.tokens, Until: q.until, Low: math.Max(1, g.tokens/4), Dry: dry}
	if !g.atOnce {
		// What the gate has in hand stays there, and the rest flows in. To ask
		// earlier would bring no more.
		since := q.bucket.Spent() - a.bucketSpent
		rest := g.tokens - since
		hand := math.Min(q.bucket.Tokens(now), rest)
		l.Tokens, l.PerSecond = hand+since, (rest-hand)/math.Max(time.Duration(q.until-now).Seconds(), 0.001)
		l.Low, l.Dry = 0, nil
	}
	q.bucket.Lease(now, l)
}

// goOn keeps the bucket filled while the group does not answer: at the last share
// until the lease ends, then by the fallback. lost says that nothing was heard of
// the group, or of this quota, for longer than a grant lasts.
func (q *quota) goOn(now int64, lost bool, p fallbackState) {
	if now+int64(p.tick) < q.until || !lost && (!q.flowing || now >= q.ends) {
		return
	}
	rate, burst, _ := q.inForce(now, p.rates)
	part := rate / float64(max(p.gates, 1))
	until := now + int64(p.interval)
	if q.epoch != "" && now < q.ends {
		if !q.flowing {
			part = math.Min(part, q.share)
		} else {
			part = q.share
		}
		q.until, q.mode = min(until, q.ends), Kept
		q.bucket.Flow(now, part, q.until, burst)
		return
	}
	q.until, q.mode, q.flowing = until, FairMode, false
	switch {
	case p.fallback == Closed:
		q.mode, part = ClosedMode, 0
	case p.fallback == Open:
		q.mode, part = OpenMode, 1e9
	case p.fallback == Share && q.share > 0:
		q.mode, part = ShareMode, q.share
	}
	most := math.Min(math.Max(burst*part/rate, q.piece), burst)
	if q.mode == ClosedMode {
		most = 0
	}
	q.bucket.Flow(now, part, until+int64(p.interval), most)
}

// fallbackState is how a gate stands that hears nothing of its group.
type fallbackState struct {
	interval time.Duration
	tick     time.Duration
	gates    int // that are there, fell silent, or are expected
	rates    *rates
	fallback Fallback
}
