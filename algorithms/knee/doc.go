// Package knee is the limit that needs no choosing: it keeps as much in flight as
// the backend needs to be busy, and a queue that follows how much is refused.
// [docs/algorithms.md] derives it.
//
// A [Limit] gathers samples without a lock until a window is full. What the window
// teaches is arithmetic without side effects: decide turns a state and a window
// into the next state and the word why. A state is made of what is known of the
// backend (baseline, throughput), of the callers (patience), and of what goes on:
// an episode of overload, a drain that tells a queue from a slower backend.
//
// [docs/algorithms.md]: https://github.com/admitd/admitd/blob/main/docs/algorithms.md
package knee
