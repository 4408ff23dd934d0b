package envoy

import (
	"strconv"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
)

// Watches returns how many streams of Watch may be open of n, each on a connection of
// its own.
func Watches(n int) (open int) {
	var w watches
	for i := range n {
		if w.begin(strconv.Itoa(i)) {
			open++
		}
	}
	for i := range open {
		w.end(strconv.Itoa(i))
	}
	if w.all != 0 || len(w.of) != 0 {
		return -1
	}
	return open
}

// Split is split, for tests.
func Split(rate float64, wants []float64) []float64 { return split(rate, wants) }

// Filling is filling, for tests.
func Filling(perSecond float64) (tokens uint32, every time.Duration) { return filling(perSecond) }

// Ledger is the ledger with Envoys that have one bucket each, for tests.
type Ledger struct {
	*quotaTable

	clients map[string]*client
}

// NewLedger returns a ledger.
func NewLedger(q Quotas) Ledger { return Ledger{newLedger(q), map[string]*client{}} }

// Report takes in what one Envoy used of an ingress and returns what it is told:
// the share, or that its bucket is abandoned.
func (l Ledger) Report(now time.Time, name, ingress string, asked uint64, elapsed time.Duration) (share float64, abandoned bool) {
	shares, gone := l.ReportOf(now, name, ingress, "acme", asked, elapsed)
	return shares["acme"], gone["acme"]
}

// ReportOf is Report for the bucket of a tenant; it returns everything that the
// Envoy is told, by tenant.
func (l Ledger) ReportOf(now time.Time, name, ingress, tenant string, asked uint64, elapsed time.Duration) (shares map[string]float64, abandoned map[string]bool) {
	c := l.clients[name]
	if c == nil {
		c = newClient()
		l.clients[name] = c
	}
	id := &quotav3.BucketId{Bucket: map[string]string{"tenant": tenant}}
	l.report(now, c, usage{id: id, key: keyOf(id), ingress: ingress, part: tenant, asked: asked, elapsed: elapsed})
	shares, abandoned = map[string]float64{}, map[string]bool{}
	for _, a := range l.take(c) {
		of := a.id.GetBucket()["tenant"]
		if abandoned[of] = a.abandon; !a.abandon {
			shares[of] = a.rate.PerSecond
		}
		if a.blocked {
			shares[of] = -1
		}
	}
	return shares, abandoned
}

// Quotas returns how many quotas somebody shares.
func (l Ledger) Quotas() int { return len(l.shared) }

// Leave ends the stream of an Envoy.
func (l Ledger) Leave(now time.Time, name string) { l.leave(now, l.clients[name]) }
