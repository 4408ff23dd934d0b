// Package relay is the relay between a client and a backend: the one loop
// that moves the messages of a wire protocol, whatever the protocol is.
//
// A [Relay] serves the connections of one gate. Each is a [Session]: two
// goroutines, one per direction, that find messages in place and write every
// run of passed messages once. What the messages mean is told by a [Protocol],
// of which every connection has its own. Its methods:
//
//   - Size says where a message ends and how much of it must be seen.
//   - Inspect decides about a message of the client: it passes, is answered
//     here, is swallowed, or has to wait.
//   - Landed reads a message of the backend: does it answer what the client
//     waits for, and how did it go?
//
// # The life of a connection
//
// The client's side reads a message, asks Inspect, connects to a backend with
// the first message that passes, and goes on until the client leaves. Inspect
// may call [Session.Admit], which waits in the limiter's queues, sends what was
// decided before, and gives up when the client has gone. A message that passes
// with [Verdict.Expect] opens the turn: until the backend's side sees the last
// answer to it, the client is owed something. A protocol in which clients take
// turns returns [Wait] for the next message while [Turn.Owes] says so. So at
// most one permit is at work per connection, answers of the gate come in their
// place without a queue of them, and what waits behind an answer that nobody
// reads holds nothing. A protocol in which several messages are at work at once
// never sets Expect and keeps its permits itself: it is a [Multiplexer].
//
// A permit stands for work at the backend. When the client leaves, it is told
// so ([limiter.Permit.Leave]) and kept; the answer is read to nobody until it
// ends the permit, bounded in bytes and time; see [Options.Cancel]. While the
// backend can only wait for the client, which does not read its answer or not
// send the rest, nobody works: the permit is given back then, and taken again by
// force when something moves.
//
// In a drain the protocol says what keeps a connection: see [Protocol] and its
// method Done.
//
// # Where it stands
//
// A message goes up by session.go (Begin), upstream.go and connReader.go, which read it,
// turn.go, where it gets its permit, and lane.go, which writes it; its answer comes
// down by downstream.go. What stands beside that way has its own files: messages
// that do not fit into a buffer (large.go), who waits and is watched (patience.go),
// who stands still (pace.go), who sleeps (sleep.go), how a session ends
// (ending.go).
//
// # What the relay keeps for everybody
//
// Idle connections hold no buffer, and after a while no goroutine: a side to which
// nothing comes sleeps until something does, see [Relay.Begin]. Messages that do
// not fit into a buffer are passed on as they come. What began to move must keep moving, in both directions and
// on both sides: see [Options.Patience]. A backend that cannot be dialled is
// left alone for a while and another one is tried: see [Dialer].
//
// It knows no protocol, no partition and no document; it judges nothing.
package relay
