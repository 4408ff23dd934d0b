package decide

import (
	"errors"
	"sync/atomic"

	"github.com/admitd/admitd/limiter"
)

// Via is the way by which somebody asked. The set is closed.
type Via int

// The ways.
const (
	ViaAdmissions    Via = iota // POST /v1/admissions, single or as a batch
	ViaAuthorize                // GET /v1/authorize
	ViaRateLimit                // Envoy's rate limit service
	ViaAuthorization            // Envoy's external authorization
	viaCount
)

// Ways lists them all.
func Ways() []Via { return []Via{ViaAdmissions, ViaAuthorize, ViaRateLimit, ViaAuthorization} }

// String returns the way as metrics name it.
func (v Via) String() string {
	return [viaCount]string{"admissions", "authorize", "rate_limit", "authorization"}[v]
}

// counts are what became of those who asked, by way.
type counts [viaCount]struct{ admitted, refused atomic.Uint64 }

// note counts one answer. An error that is no refusal is none.
func (c *counts) note(v Via, err error) {
	switch {
	case err == nil:
		c[v].admitted.Add(1)
	case errors.Is(err, limiter.ErrRejected), errors.Is(err, ErrFull), errors.Is(err, ErrUnacceptable):
		c[v].refused.Add(1)
	}
}

// Counts returns how many who asked by a way were admitted and refused.
func (d *Decider) Counts(v Via) (admitted, refused uint64) {
	return d.counts[v].admitted.Load(), d.counts[v].refused.Load()
}
