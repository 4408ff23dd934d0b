package bucket

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
// than maxWait pays the debt off; 0 sets no bound, less than 0 forbids
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

// Paid returns the receipt of a bill of which every due was taken already.
func (b Bill) Paid() Receipt { return Receipt{bill: b} }

// For returns the same receipt for a copy of its bill.
func (r *Receipt) For(b Bill) Receipt { return Receipt{bill: b, places: r.places} }

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
