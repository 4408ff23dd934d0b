// Package roundtrip takes an admitted request to the backend and the answer to its
// caller, over the connections of [upstream]. What it does in this order:
//
//	forward   the exchange: one attempt, or two when the first found a dead connection
//	link      its connection to the backend, and how much of the request has gone over it
//	upload    a body that streams to the backend meanwhile
//	relay     the answer on its way to the caller
//	heldTime    how long the backend took, by which the permit ends
//
// and what it may come to besides: a tunnel, after a switch of protocols; an
// orphan, whose caller has left; a failure, which the caller is told of.
//
// A permit stands for work at the backend: it ends with the last byte that the
// backend sends, also when nobody listens any more. A [Route] is the gate's: how a
// request is worded, what an answer says about the load and what callers are told
// is for its [Gate] to say.
package roundtrip
