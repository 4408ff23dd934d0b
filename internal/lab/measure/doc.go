// Package measure is what came of a run of the overload lab: a [Result] has the
// counts of each window and what happened over time, and [Names] are the numbers
// that criteria, reports and comparisons take from it.
package measure
