// Package ingress takes connections in. It bounds how many are open, limits
// how fast they arrive, speaks TLS and the PROXY protocol, isolates a panic to
// the connection it happened on, and drains in order. It knows no protocol:
// what flows through a connection is the business of the gates below it.
//
// A [Door] decides which connections come in and counts them. A [Listener] is
// a net.Listener behind a door; the HTTP gate puts it under net/http. A
// [Server] runs a [Handler] on every connection that comes through a door, for
// protocols that own their connections.
package ingress
