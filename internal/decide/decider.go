package decide

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Errors that are answered with more than a failure.
var (
	// ErrUnknownIngress: no ingress has that name. Answered with 404.
	ErrUnknownIngress = errors.New("decide: no such ingress")
	// ErrFull: as many permits are held as may be, or the decision API has closed.
	// Answered with 503, as a refusal.
	ErrFull = errors.New("decide: as many permits are held as may be")
	// ErrUnacceptable: the request that a proxy asks about is one that a gate answers
	// with 400, as a backend may read it in another way.
	ErrUnacceptable = errors.New("decide: not a request that a gate forwards")
)

// Gates are the gates of a daemon, as those who ask see them. Safe for
// concurrent use.
type Gates interface {
	// Admit is [limiter.Gate.Admit] of the ingress that a names; the error may
	// also be [ErrUnknownIngress] or [ErrUnacceptable]. It completes a with what the ingress knows:
	// the partition of a.HTTP, and the cost.
	Admit(ctx context.Context, a *Ask) (limiter.Permit, error)
	// Form returns how the ingress words the refusals of a partition.
	Form(ingress, partition string) labels.HTTPForm
}

// Ask is a request for a decision.
type Ask struct {
	Via       Via
	Ingress   string
	Partition string        // the key; "" = as HTTP says, or the partition "default"
	Operation string        // for exemptions and costs by operation; "" = as HTTP says
	Class     labels.Class  // who may ask is believed; Unclassed = as the ingress's rules say
	Cost      float64       // tokens; 0 = what the operation costs
	MaxWait   time.Duration // 0 = no bound beyond the policy's; [limiter.NoWait] = must not wait
	// HTTP is the request that a proxy asks about, which the ingress identifies
	// by its own rules; nil = there is none. What the other fields say goes first.
	HTTP *http.Request
	// Joined says that each header of HTTP has one value, in which several may be
	// joined by commas.
	Joined bool
}

// Bounds of what callers say and hold.
const (
	MaxTTL     = 10 * time.Minute // longest time for which a permit is held
	defaultTTL = 10 * time.Second
	maxName    = 256 // bytes of ingress, partition and operation
	maxPermits = 100_000
)

// Decider asks the gates and holds the permits that they grant, until they are
// returned or expire. It is safe for concurrent use.
type Decider struct {
	gates   Gates
	permits *permits
	counts  counts
}

// NewDecider returns a desk that holds most permits at a time; 0 = 100,000.
// [Decider.Close] ends those that it holds.
func NewDecider(g Gates, most int) *Decider {
	if most <= 0 {
		most = maxPermits
	}
	return &Decider{gates: g, permits: newPermits(most)}
}

// Admit asks for a permit that the caller ends itself. The errors are those of
// [Gates.Admit].
func (d *Decider) Admit(ctx context.Context, a *Ask) (limiter.Permit, error) {
	permit, err := d.gates.Admit(ctx, a)
	d.counts.note(a.Via, err)
	return permit, err
}

// Hold is how the decision API keeps a permit.
type Hold struct {
	ID      string          // "" = one that cannot be guessed is made up
	TTL     time.Duration   // > 0, at most [MaxTTL]
	Expired limiter.Outcome // how it ends when nobody returns it
}

// Hold asks for a permit and keeps it for the caller, who returns it by the id
// with [Decider.End]. A permit that is held under the same id already ends as
// ignored. The error may also be [ErrFull].
func (d *Decider) Hold(ctx context.Context, a *Ask, h Hold) (id string, err error) {
	if !d.permits.book(1) {
		d.counts.note(a.Via, ErrFull)
		return "", ErrFull
	}
	permit, err := d.Admit(ctx, a)
	if err != nil {
		d.permits.unbook()
		return "", err
	}
	if err := ctx.Err(); err != nil { // nobody is there to take it
		d.permits.unbook()
		permit.End(limiter.Ignored)
		return "", err
	}
	return d.permits.keep(permit, h), nil
}

// Kept is a permit that the caller has, and how the decision API is to keep it.
type Kept struct {
	Permit limiter.Permit
	Hold
}

// Keep holds permits that the caller has and moves them to the decision API: all of them
// or none. The error is [ErrFull]; the permits are then still the caller's.
func (d *Decider) Keep(all []Kept) error {
	if !d.permits.book(len(all)) {
		return ErrFull
	}
	for i := range all {
		d.permits.keep(all[i].Permit, all[i].Hold)
	}
	return nil
}

// End returns a permit that the decision API holds. It reports false when there is none
// of that id: never granted, returned already, or expired.
func (d *Decider) End(id string, o limiter.Outcome) bool { return d.permits.end(id, o) }

// Held returns how many permits the decision API holds.
func (d *Decider) Held() int { return d.permits.held() }

// Close ends, as ignored, every permit that the decision API holds; from then on it
// holds none.
func (d *Decider) Close() { d.permits.close() }

// Refusal returns the document and the form of what was refused; ok is false
// for an error that is no refusal.
func (d *Decider) Refusal(a *Ask, err error) (doc labels.Document, form labels.HTTPForm, ok bool) {
	if errors.Is(err, ErrFull) {
		return d.full(a)
	}
	rejection, ok := errors.AsType[*limiter.Rejection](err)
	if !ok {
		return doc, form, false
	}
	form = d.gates.Form(a.Ingress, rejection.Partition)
	return rejection.Document(limiter.Request{Cost: a.Cost}, !form.NoHints), form, true
}

// full is the refusal of one permit too many. No work ran, and there will be
// room when one is returned or expires.
func (d *Decider) full(a *Ask) (labels.Document, labels.HTTPForm, bool) {
	partition := a.Partition
	if partition == "" {
		partition = limiter.DefaultPartition
	}
	form := d.gates.Form(a.Ingress, partition)
	doc := labels.New(labels.ConcurrencyLimit, a.Ingress, partition)
	doc.Detail = "The decision API holds as many permits as it may"
	if !form.NoHints {
		doc.RetryAfterMS = time.Second.Milliseconds()
	}
	return doc, form, true
}
