// Package limiter decides what may pass. It does no I/O.
//
// A [Gate] stands in front of one backend. [Gate.Admit] first spends tokens
// from the request rate [Bucket], then acquires a [Permit] from the request's
// partition, whose concurrency [Limit] learns from the latency of every permit
// that ends. What cannot pass is refused at once with a [*Rejection].
//
// The stops of a request have a file each: partitionTable.go (who is a partition),
// decide.go (may it pass), bucketSet.go (what it pays), line.go (who is next),
// permit.go (what it holds, and what it leaves behind).
//
// Tokens are spent; permits are held. A token is given back only when the
// permit is then refused (no work ran). A permit ends exactly once, whatever
// path the request takes.
//
// Time is monotonic nanoseconds as int64, read from a [Clock]. Deciding
// allocates nothing, takes no global lock, and reads the clock at most once;
// ending a permit reads it once more.
package limiter
