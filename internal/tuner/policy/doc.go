// Package policy holds the rules by which the tuner wishes a setting to move:
// [Threshold], [Target], [Backlog], [Objective] and [Schedule].
//
// A [Rule] is told at every moment what the signals say, and asked for a
// [Wish]: the value that it would give to a setting now. A wish knows nothing of
// cooldowns, trials or other rules; who asks decides what becomes of it. For
// every setting less is more careful.
//
// The package reads no clock and imports nothing but the standard library.
package policy
