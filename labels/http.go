package labels

import (
	"math"
	"net/http"
	"strconv"
)

// RetryAfterSeconds returns the value of Retry-After for a wait in
// milliseconds: whole seconds, rounded up, at least 1, since a client that is
// told 0 comes back at once.
func RetryAfterSeconds(ms int64) int64 { return max((ms+999)/1000, 1) }

// RateLimitFields returns the values of RateLimit-Policy and RateLimit
// (draft-ietf-httpapi-ratelimit-headers) of a refusal by a bucket of perSecond
// tokens per second and burstSeconds depth, 0 = 1 s. wait is in seconds; 0 tells
// no time, since no wait helps. The window is the time in which the bucket fills, in whole seconds and long
// enough for one token. Both are empty for an unlimited rate.
func RateLimitFields(perSecond, burstSeconds float64, wait int64) (policy, state string) {
	if !(perSecond > 0) {
		return "", ""
	}
	if !(burstSeconds > 0) {
		burstSeconds = 1
	}
	window := math.Ceil(max(burstSeconds, 1/perSecond))
	quota := max(math.Floor(perSecond*window), 1)
	policy = `"requests";q=` + strconv.FormatFloat(quota, 'f', 0, 64) + ";w=" + strconv.FormatFloat(window, 'f', 0, 64)
	state = `"requests";r=0`
	if wait > 0 {
		state += ";t=" + strconv.FormatInt(wait, 10)
	}
	return policy, state
}

// Field is a header field of a refusal over HTTP.
type Field struct {
	Name, Value string
	Waits       bool // Value ends with the wait in seconds
}

// HTTPForm is how an ingress words its refusals over HTTP. The zero value gives
// hints and chooses the status by the reason.
type HTTPForm struct {
	NoHints bool
	Status  int // of every refusal; 0 = by reason
	// PerSecond and BurstSeconds are the rate that refused, for RateLimit
	// headers; 0 = none is told.
	PerSecond, BurstSeconds float64
}

// HTTPFields gives d the status that f asks for and returns the header fields of
// the answer. Those with an empty value are left out. The body's type,
// application/problem+json, is not among them.
func (d *Document) HTTPFields(f HTTPForm) [6]Field {
	if f.Status != 0 {
		d.Status = f.Status
	}
	fields := [6]Field{{Name: HeaderReason, Value: string(d.Reason)}, {Name: "Cache-Control", Value: "no-store"}}
	row := d.Reason.row()
	if row.leaving {
		fields[5] = Field{Name: "Connection", Value: "close"}
	}
	if f.NoHints {
		return fields
	}
	wait := RetryAfterSeconds(d.RetryAfterMS)
	if row.never {
		wait = 0 // a time would say: come back
	} else {
		fields[2] = Field{Name: "Retry-After", Value: strconv.FormatInt(wait, 10), Waits: true}
	}
	if row.byRate {
		if policy, state := RateLimitFields(f.PerSecond, f.BurstSeconds, wait); policy != "" {
			fields[3], fields[4] = Field{Name: "RateLimit-Policy", Value: policy}, Field{Name: "RateLimit", Value: state, Waits: wait > 0}
		}
	}
	return fields
}

// SetHeaders gives d the status that f asks for and h the header fields of an
// answer with d as its body, for servers that stay when an ingress leaves:
// Connection is not among them.
func (d *Document) SetHeaders(h http.Header, f HTTPForm) {
	h.Set("Content-Type", "application/problem+json")
	for _, field := range d.HTTPFields(f) {
		if field.Value != "" && field.Name != "Connection" {
			h.Set(field.Name, field.Value)
		}
	}
}
