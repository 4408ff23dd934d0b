// Package mongogate speaks the MongoDB wire protocol in front of one backend
// and answers excess commands with error 462, so that drivers back off and
// retry by themselves.
//
// A [Server] serves client connections. Each is paired with one backend
// connection: two goroutines, one per direction, that scan frames in place and
// write every chunk once. A command is identified from its first bytes, asks
// the limiter for a permit, and is then either forwarded byte for byte or
// answered here; it is never both. Replies are matched to commands by their
// responseTo, and what is answered here keeps its place among them.
//
// Handshakes are never gated: a refused hello would make a driver forget the
// server. Replies to hello are rewritten where the backend would otherwise
// tell drivers to walk around the gate; see [Topology].
package mongogate
