package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrBatch is the error of a [Batch] whose Send broke its contract: more results
// than items, or fewer without an error. Such a batch is not resumed, because
// nobody knows what ran.
var ErrBatch = errors.New("client: batch results do not match its items")

// Batch is a list of items that depend on those before them, sent together. A
// server executes them in order and stops at the first it refuses.
type Batch[Item, Result any] struct {
	Name  string
	Kind  Kind
	Items []Item
	// Done are the results of the first items, from an earlier run that gave up.
	// Those items are not sent.
	Done []Result

	// Send sends items and returns the results of those that were executed, which
	// are the first len(results), with the error that stopped the rest. Items are
	// Send's for the time of the call.
	Send func(ctx context.Context, a *Attempt, items []Item) ([]Result, error)
	// Carry returns an item with the ids filled in that executed items produced,
	// done being their results from the first. It is called for the items that are
	// left before each time they are sent on. Within one Send the server carries ids
	// by itself. Nil when items need nothing.
	Carry func(item Item, done []Result) Item
}

// RunBatch runs a batch under the client's policy. After a failure that may be
// retried it goes on with the first item that was not executed; each time some
// were, the retries of the rest count anew, so that a long batch comes through a
// server that takes a few items at a time.
//
// It returns the results of the items executed, one each, in order, also when it
// fails: err == nil exactly when all were. An executed item is never sent again,
// and no result is lost; to go on later, pass the results as Done. What stopped
// the batch is found in err as with [Client.Do].
//
// That no item runs twice rests on what failures say: with one that is
// [Failure.Transient] Send vouches that items without a result may be repeated.
func RunBatch[Item, Result any](ctx context.Context, c *Client, b *Batch[Item, Result]) ([]Result, error) {
	done := slices.Clone(b.Done)
	if len(done) > len(b.Items) {
		return done, fmt.Errorf("%w: %d done of %d items", ErrBatch, len(done), len(b.Items))
	}
	if len(done) == len(b.Items) {
		return done, nil
	}
	err := c.Do(ctx, Operation{Name: b.Name, Kind: b.Kind, Run: func(ctx context.Context, a *Attempt) error {
		items := b.rest(done)
		results, err := b.Send(ctx, a, items)
		if len(results) > len(items) || err == nil && len(results) < len(items) {
			done = append(done, results[:min(len(results), len(items))]...)
			cause := fmt.Errorf("%w: %d results for %d items", ErrBatch, len(results), len(items))
			return &Failure{Err: errors.Join(cause, err), Reason: "batch", Final: true}
		}
		if len(results) > 0 {
			done = append(done, results...)
			a.Progress()
		}
		if len(results) == len(items) {
			return nil // whatever the error is, nothing is left to be done
		}
		return err
	}})
	return done, err
}

// rest returns the items without a result, with carried ids.
func (b *Batch[Item, Result]) rest(done []Result) []Item {
	items := slices.Clone(b.Items[len(done):])
	if b.Carry != nil && len(done) > 0 {
		for i := range items {
			items[i] = b.Carry(items[i], done)
		}
	}
	return items
}
