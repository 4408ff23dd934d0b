// Package source reads the numbers behind the tuner's signals: of the host or a
// cgroup ([Host]), of a Prometheus text endpoint ([Scrape]), of a PromQL query
// ([Query]) and of a JSON document behind HTTP ([Document]).
//
// Every source answers by the deadline of its context, reads a bounded number
// of bytes, and is used by one goroutine at a time. Judging what was read is not
// its business: see package signal.
package source
