// Package fleet shares rates and limits between gates. Their common state lies
// in Redis, as a notice board and not as a dependency: no request ever waits for
// it, and a gate that cannot reach it goes on with what it was lent, and then by
// its [Fallback].
//
// A [Group] is one gate's end of it. About five times a second it tells the
// group, in one call for all quotas, what this gate has spent and what is asked
// of it, and is granted tokens, which it puts into the buckets of
// [limiter.Bucket] as leases. All arithmetic between gates is done by a script
// inside Redis (quotas.lua), by the clock of Redis.
//
// ADR 20 says why it is done so, docs/fleet.md how it is used.
//
// The package does not decide about requests, and knows no protocol.
package fleet
