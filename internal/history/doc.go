// Package history keeps the last half hour of a daemon, one reading a second, and
// says in a sentence how each ingress is. A [Book] takes [Reading] values; a
// [Verdict] is what everybody shows who shows anything: the live page, the
// terminal, the health check. The words and the colours are in one table here.
//
// It reads no clock and starts nothing: time is passed in.
package history
