package limiter

import (
	"github.com/admitd/admitd/limiter/bucket"
	"github.com/admitd/admitd/limiter/shape"
)

// MaxCost is the most tokens that one request may cost.
const MaxCost = bucket.MaxCost

// What is paid, and to whom; see package bucket.
type (
	// Bucket is a token bucket; nil is unlimited.
	Bucket = bucket.Bucket
	// Rate is a token bucket as an operator writes it.
	Rate = bucket.Rate
	// Lease is what a bucket of a shared rate may spend.
	Lease = bucket.Lease
	// Sharing is what buckets of shared rates have in common.
	Sharing = bucket.Sharing
	// Due is what one bucket is owed.
	Due = bucket.Due
	// Bill is what a request has to pay: every due, or none.
	Bill = bucket.Bill
	// Receipt says what was paid, so that it can be given back.
	Receipt = bucket.Receipt
)

// NewBucket is [bucket.New].
func NewBucket(r Rate, now int64) *Bucket { return bucket.New(r, now) }

// bucketSet is what the requests of a partition pay to.
type bucketSet struct {
	ingress *Bucket // nil = unlimited
	own     *Bucket // the partition's; nil = unlimited
}

// dues returns what a request of the given cost owes. One that costs nothing owes
// nothing to a bucket in debt either.
func (p *bucketSet) dues(cost float64) [2]Due {
	if cost == 0 {
		return [2]Due{}
	}
	return [2]Due{{Bucket: p.ingress, Tokens: cost}, {Bucket: p.own, Tokens: cost}}
}

// take takes n tokens from each bucket, or from neither. It is the way of
// nearly every request: what [Bill.Pay] does when all tokens are there.
func (p *bucketSet) take(now int64, n float64) bool {
	if p.ingress == nil && p.own == nil {
		return true
	}
	if _, ok := p.ingress.Take(now, n); !ok {
		return false
	}
	if _, ok := p.own.Take(now, n); !ok {
		p.ingress.Refund(n)
		return false
	}
	return true
}

// refund gives n tokens back that take took.
func (p *bucketSet) refund(n float64) {
	p.ingress.Refund(n)
	p.own.Refund(n)
}

// spend takes n tokens whether or not they are there.
func (p *bucketSet) spend(now int64, n float64) {
	p.ingress.Spend(now, n)
	p.own.Spend(now, n)
}

// holds reports whether n tokens are there at now. Those that were there
// earlier and are not spent still are, so an earlier now than the present one
// may stand for it where only a true answer is acted upon.
func (p *bucketSet) holds(now int64, n float64) bool {
	return p.ingress.Holds(now, n) && p.own.Holds(now, n)
}

// blame returns the cause of a refusal by one of the buckets, of a request of
// the given cost, and notes what it asked for where the rate is shared.
func (p *bucketSet) refusedBy(refused *Bucket, cost float64) cause {
	never := cost > refused.Burst()
	shared := refused.Miss(cost)
	switch {
	case shared && never:
		return costOfFleet
	case shared:
		return rateOfFleet
	case refused == p.ingress && never:
		return costOfIngress
	case refused == p.ingress:
		return rateOfIngress
	case never:
		return costOfPartition
	default:
		return rateOfPartition
	}
}

// priced returns what to ask for where a request costs so many tokens by its shape.
// What a bucket can never hold is not asked of it at once; the rest is charged when
// the request ends.
func (p *bucketSet) priced(cost float64) float64 {
	return min(cost, max(p.ingress.Burst(), shape.Least), max(p.own.Burst(), shape.Least))
}
