// Package sqltext reads what a text of SQL would do, without understanding it: the
// first word of each statement, and no more of the language than hides one, which
// is quotes, dollar quotes and comments.
//
// [Parse] returns a [Statement] for a whole text of several, [ParseShown] for what a
// message shows of one; [Normalise] leaves out what differs from one call to the
// next. What cannot be told is taken for work, never for nothing. It knows no
// message and no session.
package sqltext
