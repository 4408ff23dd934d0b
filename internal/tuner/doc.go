// Package tuner moves rates and limits as the database, its host and the gate
// itself say, within bounds that somebody set.
//
// Signals are read ([signal.Signal]), rules wish ([policy.Rule]), and the
// [Tuner] decides: of several wishes for one setting the most careful wins; a
// wish is cut to a step and to bounds; what is granted is tried, watched by the
// gate's own latencies and goodput, and taken back by itself when it made things
// worse. Every decision is a [Record]. What the tuner set can be undone at once,
// and what a person set is left alone.
//
// A Tuner moves settings through a [Gate], which is the daemon's door for
// runtime changes. It reads no clock: [Tuner.Tick] is told the time, and
// [Tuner.Run] is what tells it in a daemon.
//
// It does not look at single requests and knows no protocol.
package tuner
