// Package topkeys finds who makes the load: of the clients, applications, users and
// operations of an ingress those that ask most, and those that are refused most,
// in memory that does not grow with how many there are.
//
// A [Board] counts with space-saving sketches that forget within a minute or so.
// It looks at every request while there are few, and at a sample when there are
// many, so that it costs a busy gate next to nothing: a gate asks [Board.Due]
// first, and tells an [Asker] only then.
package topkeys

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a board.
const (
	// places is how many of each kind are told apart. What is asked for by more
	// than one in so many is certain to be among them.
	places = 128
	// halfLife is after how long what happened counts half.
	halfLife = 20 * time.Second
	// most and fewest are the samples per second between which the share that is
	// looked at stays as it is.
	most, fewest = 2000, 400
	maxSkip      = 1<<12 - 1 // of so many and one requests one is looked at, at the least
	maxText      = 128       // bytes that are kept of a name
)

// Asker is who sent a request, as far as it is known. Strings are copied before
// they are kept.
type Asker struct {
	Client      netip.Addr // the zero Addr = unknown
	Application string     // "" = unknown
	User        string     // "" = unknown
	Operation   Operation
}

// Operation is what was asked for: a verb, and what it is about. Either may be
// empty.
type Operation struct{ Verb, Object string }

// String joins the two.
func (o Operation) String() string {
	if o.Verb == "" || o.Object == "" {
		return o.Verb + o.Object
	}
	return o.Verb + " " + o.Object
}

// Board counts the askers of one ingress. The zero value is empty and ready; a
// nil Board is never due. It is safe for concurrent use.
type Board struct {
	skip    atomic.Uint32 // of so many and one requests one is looked at: 2^n-1
	samples atomic.Uint32 // since the last turn

	mu           sync.Mutex // guards the fields below; on the request path taken only by TryLock
	turned       time.Time  // when counts were aged last
	weight       float64    // seconds that the counts stand for
	clients      sketch[netip.Addr]
	applications sketch[string]
	users        sketch[string]
	operations   sketch[Operation]
}

// Due reports whether the board wants to be told of this request.
func (b *Board) Due() bool {
	if b == nil {
		return false
	}
	skip := b.skip.Load()
	return skip == 0 || rand.Uint32()&skip == 0 //nolint:gosec // a sample, not a secret
}

// Saw tells of a request for which [Board.Due] was true, once it is decided. It
// allocates nothing for those who are known, and never waits.
func (b *Board) Saw(a *Asker, refused bool) {
	skip := b.skip.Load()
	if n := b.samples.Add(1); n%(4*most) == 0 && skip < maxSkip {
		b.skip.CompareAndSwap(skip, skip<<1|1) // a flood that began within this second
	}
	if !b.mu.TryLock() {
		return // another one is told; a sample less
	}
	defer b.mu.Unlock()
	n, r := float64(skip+1), 0.0
	if refused {
		r = n
	}
	if a.Client.IsValid() {
		b.clients.add(a.Client, n, r, nil)
	}
	if a.Application != "" {
		b.applications.add(a.Application, n, r, clip)
	}
	if a.User != "" {
		b.users.add(a.User, n, r, clip)
	}
	if a.Operation != (Operation{}) {
		b.operations.add(a.Operation, n, r, func(o Operation) Operation { return Operation{clip(o.Verb), clip(o.Object)} })
	}
}

// Turn ages what was counted, as of now, and chooses the share of requests that is
// looked at. It is to be called about once a second.
func (b *Board) Turn(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.turned.IsZero() {
		b.turned = now
		b.samples.Store(0)
		return
	}
	seconds := now.Sub(b.turned).Seconds()
	if seconds < 0.1 {
		return
	}
	b.turned = now
	switch n, skip := float64(b.samples.Swap(0))/seconds, b.skip.Load(); {
	case n > most && skip < maxSkip:
		b.skip.Store(skip<<1 | 1)
	case n < fewest:
		b.skip.Store(skip >> 1)
	}
	keep := math.Exp2(-seconds / halfLife.Seconds())
	// The counts are of seconds on end that each weigh less than the one after it.
	b.weight = b.weight*keep + (1-keep)*halfLife.Seconds()/math.Ln2
	b.clients.age(keep)
	b.applications.age(keep)
	b.users.age(keep)
	b.operations.age(keep)
}

// Kind is what is counted.
type Kind string

// The kinds.
const (
	ByClient      Kind = "client"
	ByApplication Kind = "application"
	ByUser        Kind = "user"
	ByOperation   Kind = "operation"
)

// Kinds returns every kind.
func Kinds() []Kind { return []Kind{ByClient, ByApplication, ByUser, ByOperation} }

// Row is one of those who ask.
type Row struct {
	Name     string
	Received float64 // requests per second, over the last minute or so
	Refused  float64 // of these
	// Over is by how much Received may be too high, since others had the place
	// before.
	Over float64
}

// Top returns the n of a kind that ask most, or are refused most.
func (b *Board) Top(kind Kind, n int, byRefused bool) []Row {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch kind {
	case ByClient:
		return top(&b.clients, n, byRefused, b.weight, netip.Addr.String)
	case ByApplication:
		return top(&b.applications, n, byRefused, b.weight, func(s string) string { return s })
	case ByUser:
		return top(&b.users, n, byRefused, b.weight, func(s string) string { return s })
	case ByOperation:
		return top(&b.operations, n, byRefused, b.weight, Operation.String)
	}
	return nil
}
