package client_test

import (
	"math"
	"sync"
	"testing"

	"github.com/admitd/admitd/client"
)

// Many goroutines that take one token and give it back never see more tokens
// than there are, and none gets lost.
func TestBudgetIsSafeForConcurrentUse(t *testing.T) {
	const capacity, workers, rounds = 4, 16, 2000
	b := client.NewBudget(capacity)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for range rounds {
				if b.Consume(1) {
					b.Deposit(1)
				}
				if got := b.Tokens(); got < 0 || got > capacity {
					t.Errorf("balance is %v; want 0 to %d", got, capacity)
				}
			}
		})
	}
	group.Wait()
	if got := b.Tokens(); got != capacity {
		t.Errorf("balance is %v at the end; want %d", got, capacity)
	}
	s := b.Stats()
	if int64(s.Spent)+s.Denied != workers*rounds {
		t.Errorf("%v spent and %d denied; want %d together", s.Spent, s.Denied, workers*rounds)
	}
}

// Exactly as many retries are granted as there are tokens, however many ask.
func TestBudgetGrantsNoMoreThanItHolds(t *testing.T) {
	b := client.NewBudget(100)
	granted := make(chan struct{}, 1000)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			for range 100 {
				if b.Consume(1) {
					granted <- struct{}{}
				}
			}
		})
	}
	group.Wait()
	if len(granted) != 100 || b.Tokens() != 0 {
		t.Errorf("%d granted, %v left; want 100 and 0", len(granted), b.Tokens())
	}
}

func TestBudgetEdges(t *testing.T) {
	var none *client.Budget
	if !none.Consume(1) || none.Deposit(1) || !math.IsInf(none.Tokens(), 1) || !math.IsInf(none.Stats().Capacity, 1) {
		t.Error("a nil budget is not unlimited")
	}
	b := client.NewBudget(1)
	if b.Deposit(1) {
		t.Error("a deposit changed a full budget")
	}
	if !b.Consume(-1) || !b.Consume(math.NaN()) || b.Tokens() != 1 {
		t.Errorf("consuming less than nothing left %v tokens; want 1", b.Tokens())
	}
	if b.Deposit(-1) || b.Tokens() != 1 {
		t.Errorf("depositing less than nothing left %v tokens; want 1", b.Tokens())
	}
	if b.Consume(math.Inf(1)) {
		t.Error("infinitely many tokens were granted")
	}
	if b.Consume(1); !b.Deposit(math.Inf(1)) || b.Tokens() != 1 {
		t.Errorf("an infinite deposit left %v tokens; want the capacity", b.Tokens())
	}
	for _, capacity := range []float64{0, -1, math.NaN()} {
		if client.NewBudget(capacity).Consume(0.001) {
			t.Errorf("a budget of capacity %v granted a token", capacity)
		}
	}
}
