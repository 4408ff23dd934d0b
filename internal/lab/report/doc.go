// Package report says what a suite of the overload lab showed: a [Report] has the
// means over the seeds and who kept which criterion, as tables for a terminal, as
// JSON, as Markdown and as a page that needs nothing else.
package report
