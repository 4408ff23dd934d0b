// Package observe is where the other rooms are watched from: Prometheus metrics
// and structured logs.
//
// [Metrics] owns the names, labels and buckets of everything that is exposed.
// What a gate counts by itself is read from its status when somebody scrapes,
// so that counting costs the request path nothing twice. Only latencies are
// recorded as they happen, through [Metrics.Gate].
//
// Label values come from the configuration or from closed sets, never from a
// client: whatever keys clients send, the number of series stays the same.
// Refusals are logged as rates by a [Summary], never one by one.
package observe
