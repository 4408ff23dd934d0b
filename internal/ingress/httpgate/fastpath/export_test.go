package fastpath

import (
	"net"
	"net/http"
)

// Parse returns the request that raw holds as the fast path reads it, nil when it
// leaves raw to net/http.
func Parse(raw []byte) *http.Request {
	p := newPlain(nil)
	g, ok := peekHead(raw)
	if !ok || !p.parse(string(raw[:g.head]), g) {
		return nil
	}
	p.setBody(raw[g.head:])
	return &p.r
}

// Socket returns a client's connection as it is below TLS, and below net/http.
func Socket(c net.Conn) net.Conn { return newSocket(c) }
