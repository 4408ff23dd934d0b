package client

import (
	"math"
	"sync/atomic"
)

// tokenScale is how many of the budget's units make one token. Whole units let
// a balance be one atomic integer, and make ten deposits of 0.1 exactly 1.
const tokenScale = 1000

// Budget is a token bucket that bounds retries: an overload retry spends a
// token, a success earns a fraction of one. It is lock-free and safe for
// concurrent use. A nil *Budget is unlimited: it grants every token.
//
// Amounts are in tokens, kept to the nearest thousandth.
type Budget struct {
	capacity int64 // in units, set once
	units    atomic.Int64
	spent    atomic.Int64 // tokens consumed, in units
	denied   atomic.Int64 // consumptions refused
}

// BudgetStats is a reading of a [Budget]. The fields are read one after the
// other, so under load they may be a few operations apart.
type BudgetStats struct {
	Tokens   float64 // balance, in [0, Capacity]
	Capacity float64
	Spent    float64 // tokens consumed since the start
	Denied   int64   // retries that found no token
}

// NewBudget returns a full budget of the given capacity in tokens. A capacity
// below zero, or not a number, counts as zero: such a budget grants nothing.
func NewBudget(capacity float64) *Budget {
	b := &Budget{capacity: toUnits(capacity)}
	b.units.Store(b.capacity)
	return b
}

// Consume takes n tokens and reports whether there were enough; when there
// were not, it takes none. An n <= 0 is granted and costs nothing.
func (b *Budget) Consume(n float64) bool {
	if b == nil {
		return true
	}
	want := toUnits(n)
	for {
		have := b.units.Load()
		if have < want {
			b.denied.Add(1)
			return false
		}
		if b.units.CompareAndSwap(have, have-want) {
			b.spent.Add(want)
			return true
		}
	}
}

// Deposit adds n tokens, up to the capacity. It reports whether the balance
// changed; a full budget costs one atomic load.
func (b *Budget) Deposit(n float64) bool {
	if b == nil {
		return false
	}
	add := toUnits(n)
	for {
		have := b.units.Load()
		// Compared with what is missing, so that no sum can overflow.
		next := b.capacity
		if add < b.capacity-have {
			next = have + add
		}
		if next == have {
			return false
		}
		if b.units.CompareAndSwap(have, next) {
			return true
		}
	}
}

// Tokens returns the balance, in [0, capacity]. For a nil budget it is +Inf.
func (b *Budget) Tokens() float64 {
	if b == nil {
		return math.Inf(1)
	}
	return float64(b.units.Load()) / tokenScale
}

// Stats returns a reading for metrics. For a nil budget Tokens and Capacity
// are +Inf.
func (b *Budget) Stats() BudgetStats {
	if b == nil {
		return BudgetStats{Tokens: math.Inf(1), Capacity: math.Inf(1)}
	}
	return BudgetStats{
		Tokens: b.Tokens(), Capacity: float64(b.capacity) / tokenScale,
		Spent: float64(b.spent.Load()) / tokenScale, Denied: b.denied.Load(),
	}
}

// toUnits converts tokens, holding them to what an int64 can carry.
func toUnits(tokens float64) int64 {
	units := math.Round(tokens * tokenScale)
	switch {
	case !(units > 0): // also when it is not a number
		return 0
	case units >= math.MaxInt64:
		return math.MaxInt64
	}
	return int64(units)
}
