// Package algorithms estimates how many requests may be in flight.
//
// [AIMD], [Vegas], [Gradient] and [Gradient2] are the published formulas of
// Netflix/concurrency-limits, one sample in and one limit out, behind the
// core.Limit interface of go-concurrency-limits; [Fixed] is that library's own.
// They are pure arithmetic: no clock, no goroutine, no allocation.
//
// A [Window] stands between a formula and live traffic. It gathers the
// latencies of many permits without a lock, and when enough of them have come
// for long enough it feeds the formula one sample and publishes the limit.
// What a formula leaves open is decided there: which statistic of the window
// it sees, when drops count, when a limit may move at all.
//
// Latencies are monotonic; every method that needs the time takes it. The only
// randomness is the jitter of probes, and its source can be injected, so that
// a run can be repeated to the last digit.
package algorithms
