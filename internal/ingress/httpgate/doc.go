// Package httpgate is the gate for HTTP: HTTP/1.1 and HTTP/2 in, HTTP/1.1 out.
//
// A request goes through four rooms. It comes over a connection of [fast path], which
// reads it when it is a plain one, and leaves it to net/http otherwise; or over a
// session of HTTP/2, in [streams]; of either it learns by [departure] that its client
// has left. Here a
// [Server] identifies it, asks the [limiter.Gate], and refuses it or lets it go on.
// What is admitted goes by [exchange] to the backend, over connections of
// [upstream]; net/http's client and reverse proxy are not on the
// path, because they cost twice as much as all the rest (ADR 3). Bodies stream both
// ways and are never held in memory beyond one buffer. What is refused is
// refused before its body is read, so that sending it again is safe.
//
// A permit stands for work at the backend. It ends with the last byte that the
// backend sends, however long the client takes for it; and when the client has
// gone, by hanging up or because its deadline passed, the gate reads the answer to
// nobody, within bounds, since the backend works on. See Options.CancelAbandoned.
//
// The latency that teaches the limit is the backend's: time spent waiting for
// the client, in either direction, is left out. How an answer counts:
//
//	503, 504, a timeout, no connection  Dropped; see Options.OverloadStatus
//	any other 5xx, 429, half a request  Ignored: a quick failure would look like spare capacity
//	everything else                     Success
//
// A WebSocket or an event stream ends its permit once it is established; see
// Options.HoldStreams.
package httpgate
