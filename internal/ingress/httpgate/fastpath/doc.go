// Package fastpath serves plain requests of HTTP/1.1 under net/http, before that
// reads them: net/http costs more than everything else that happens to a request.
//
// [Steps] are the connections of one server. Each is a net.Conn that net/http
// reads from, and that looks at what came where a request begins. What is plain,
// see [glance] and [plain.parse], is told to the server's [Visit] and answered
// right there; all else goes to net/http, byte for byte as it came.
//
//	greeting   shakes hands, where clients come over TLS
//	doorstep   a connection: whose turn it is, this package's or net/http's
//	arrival    waits for requests, and has those refused that are to be
//	glance     the one strict grammar of a plain request
//	plain      a plain request and its answer, an [http.ResponseWriter]
//	watch      its context, and who sees its client leave
//	wording    refusals, worded once for all who are refused for the same cause
//	socket     calls that do not wait
//
// It knows no limits and no backend. ADR 7 tells why it is there.
package fastpath
