package limiter

import "time"

// Due is what one bucket is owed.
type Due struct {
	Bucket *Bucket // nil = unlimited
	Tokens float64
	// Owe: what the bucket can never hold is taken from it when it is full, and
	// leaves a debt that all who come later wait for; see [Bucket.Spend].
	// Otherwise a due above the burst is never paid.
	Owe bool
}

// Bill is what a request has to pay: every due, or none. It has at most 32 when
// tokens may be borrowed.
type Bill []Due

// Receipt says what was paid, so that it can be given back. It refers to the
// [Bill], which must stay as it is. The zero Receipt paid nothing. A Receipt is
// used by one goroutine at a time.
type Receipt struct {
	bill   Bill
	places uint32 // bit i: due i is a debt, with a place among its bucket's waiters
}

// Pay spends the tokens of every due as of now (monotonic nanoseconds). What a
// bucket lacks is borrowed where its rate has a queue and waiting no longer
// than maxWait pays the debt off; 0 sets no bound, [NoWait] forbids
// to borrow. The caller then waits before it goes on, and calls
// [Receipt.Settle].
//
// When a bucket refuses, nothing is spent: refused is that bucket and wait how
// long until it will have the tokens, 0 when it never will.
func (b Bill) Pay(now int64, maxWait time.Duration) (paid Receipt, wait time.Duration, refused *Bucket) {
	for i := range b {
		due := &b[i]
		debt, ok := due.pay(now, maxWait)
		if !ok {
			paid.Refund()
			return Receipt{}, debt, due.Bucket
		}
		paid.bill = b[:i+1]
		if debt > 0 {
			paid.places |= 1 << i
			wait = max(wait, debt)
		}
	}
	return paid, wait, nil
}

// Settle ends the wait for borrowed tokens: others may borrow.
func (r *Receipt) Settle() {
	for i := range r.bill {
		if r.places&(1<<i) != 0 {
			r.bill[i].Bucket.waiting.Add(-1)
		}
	}
	r.places = 0
}

// Refund gives everything back, for work that did not run, to the buckets that
// were paid, whatever is in force by now. No bucket rises above its burst. Only
// the first call counts.
func (r *Receipt) Refund() {
	r.Settle()
	for i := range r.bill {
		r.bill[i].Bucket.Refund(r.bill[i].Tokens)
	}
	r.bill = nil
}

// pay takes what is due.
func (d *Due) pay(now int64, maxWait time.Duration) (wait time.Duration, ok bool) {
	burst := d.Bucket.Burst()
	if !d.Owe || d.Tokens <= burst {
		return d.Bucket.pay(now, d.Tokens, maxWait)
	}
	if wait, ok = d.Bucket.Take(now, burst); ok {
		d.Bucket.Spend(now, d.Tokens-burst)
	}
	return wait, ok
}

// pay takes n tokens, on credit when the bucket's queue has room and the debt
// is paid off within maxWait. A positive wait is a debt, with a place among the
// bucket's waiters.
func (b *Bucket) pay(now int64, n float64, maxWait time.Duration) (wait time.Duration, ok bool) {
	if b == nil {
		return 0, true
	}
	s := b.state.Load()
	if n*s.scale > float64(s.burst) {
		return 0, false
	}
	wait, ok = s.spend(now, n, 0)
	depth := s.rate.QueueDepth
	if ok || depth <= 0 || maxWait < 0 || (maxWait > 0 && wait > maxWait) {
		return wait, ok
	}
	if b.waiting.Add(1) > int64(depth) {
		b.waiting.Add(-1)
		return wait, false
	}
	if wait, ok = s.spend(now, n, s.maxDebt); !ok || wait == 0 {
		b.waiting.Add(-1)
	}
	return wait, ok
}

// purse is what the requests of a partition pay to.
type purse struct {
	ingress *Bucket // nil = unlimited
	own     *Bucket // the partition's; nil = unlimited
}

// dues returns what a request of the given cost owes. One that costs nothing owes
// nothing to a bucket in debt either.
func (p *purse) dues(cost float64) [2]Due {
	if cost == 0 {
		return [2]Due{}
	}
	return [2]Due{{Bucket: p.ingress, Tokens: cost}, {Bucket: p.own, Tokens: cost}}
}

// take takes n tokens from each bucket, or from neither. It is the way of
// nearly every request: what [Bill.Pay] does when all tokens are there.
func (p *purse) take(now int64, n float64) bool {
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
func (p *purse) refund(n float64) {
	p.ingress.Refund(n)
	p.own.Refund(n)
}

// spend takes n tokens whether or not they are there.
func (p *purse) spend(now int64, n float64) {
	p.ingress.Spend(now, n)
	p.own.Spend(now, n)
}

// holds reports whether n tokens are there at now. Those that were there
// earlier and are not spent still are, so an earlier now than the present one
// may stand for it where only a true answer is acted upon.
func (p *purse) holds(now int64, n float64) bool {
	return p.ingress.holds(now, n) && p.own.holds(now, n)
}

// blame returns the cause of a refusal by one of the buckets, of a request of
// the given cost, and notes what it asked for where the rate is shared.
func (p *purse) blame(refused *Bucket, cost float64) cause {
	never := cost > refused.Burst()
	shared := refused.miss(cost)
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
