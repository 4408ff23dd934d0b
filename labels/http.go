package labels

import (
	"math"
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
