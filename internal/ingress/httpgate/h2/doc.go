// Package h2 serves HTTP/2: it owns the session, of which frames and the
// compression of fields are golang.org/x/net's. net/http has a goroutine with a
// stack that grows, a map and several messages between goroutines for each
// request, which costs more than everything else that happens to it.
//
//	server     the sessions of a gate, and their end in a drain
//	session    one connection, from its preface to its end
//	traffic    what is under way on it, and how it comes to its end
//	frameInput      reads what is there, and bounds how long nothing comes
//	intake     what each kind of frame does
//	headers    a block of fields begins a request, which is decided about, or ends a body
//	fields     what stands in a block, by one strict grammar
//	request    the request that it becomes
//	patience   what a client may do that brings nobody further
//	stream     a request with its answer
//	dismissal  tells who is answered early not to send the rest
//	body       what a request carries, within the window that was granted
//	answer     the [http.ResponseWriter] of a stream
//	frameOutput     what is to be sent, of all streams in one write, within the client's windows
//	stalled    bounds the answers that clients have no window for
//	encode     how frames begin and fields are spelt
//	wording    refusals, encoded once for all who are refused for the same cause
//
// A request that has come whole is decided where it is read: a refusal needs no
// goroutine, no map and no write of its own. It knows no limits and no backend.
// ADR 30 tells why it is there.
package h2
