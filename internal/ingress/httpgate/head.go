package httpgate

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/admitd/admitd/internal/ingress/httpgate/target"
	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
)

// AppendHead implements [exchange.Gate]: it appends the head of r as the backend gets it. Everything that
// frames the message is written anew from what net/http understood, never
// copied, so that gate and backend cannot disagree on where a request ends.
func (rt *route) AppendHead(b []byte, r *http.Request, upgrade string) []byte {
	b = append(append(b, r.Method...), ' ')
	b = append(b, target.Of(r)...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	if r.Host == "" { // HTTP/1.0
		b = append(b, rt.out.Pool.Address()...)
	}
	b = append(append(b, r.Host...), "\r\n"...)

	listed := strings.Join(r.Header["Connection"], ",")
	for name, values := range r.Header {
		if rt.withholds(name) || upstream.IsHop(name, listed) {
			continue
		}
		for _, v := range values {
			b = upstream.AppendField(b, name, v)
		}
	}
	b = rt.appendForwarded(b, r)
	if upstream.HasToken(strings.Join(r.Header["Te"], ","), "trailers") {
		b = append(b, "Te: trailers\r\n"...)
	}
	switch {
	case upgrade != "":
		b = upstream.AppendField(append(b, "Connection: Upgrade\r\n"...), "Upgrade", upgrade)
	case r.ContentLength > 0 || r.ContentLength == 0 && expectsLength(r.Method):
		b = strconv.AppendInt(append(b, "Content-Length: "...), r.ContentLength, 10)
		b = append(b, "\r\n"...)
	case r.ContentLength < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
		b = appendTrailerNames(b, r)
	}
	return append(b, "\r\n"...)
}

// withholds reports whether the client's field with a canonical name is not passed
// on, because the gate writes it or does not let a client speak for it.
func (rt *route) withholds(name string) bool {
	return upstream.IsOurs(name) || rt.id.poses(name) || !rt.o.TrustForwarded && isForwarded(name)
}

// WithholdsTrailer implements [exchange.Gate]. What requests are decided by comes
// with the head or not at all, as net/http has it of trailers that were announced.
func (rt *route) WithholdsTrailer(name string) bool {
	return rt.withholds(name) || slices.Contains(rt.id.headers, name)
}

// isForwarded reports whether the field with a canonical name tells what another
// proxy knows of the client. The gate writes none of them, and passes them on only
// from proxies that it trusts.
func isForwarded(name string) bool { return name == "Forwarded" || name == "X-Real-Ip" }

// expectsLength reports whether a request with this method and without a body
// should say so.
func expectsLength(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// appendForwarded appends what tells the backend about the client.
func (rt *route) appendForwarded(b []byte, r *http.Request) []byte {
	b = append(b, "X-Forwarded-For: "...)
	for _, v := range r.Header["X-Forwarded-For"] {
		b = append(append(b, v...), ", "...)
	}
	b = append(append(b, clientAddr(r.RemoteAddr)...), "\r\n"...)

	proto, name := first(r.Header["X-Forwarded-Proto"]), first(r.Header["X-Forwarded-Host"])
	if !rt.o.TrustForwarded || proto == "" {
		proto = "http"
		if r.TLS != nil {
			proto = "https"
		}
	}
	if !rt.o.TrustForwarded || name == "" {
		name = r.Host
	}
	b = upstream.AppendField(b, "X-Forwarded-Proto", proto)
	b = upstream.AppendField(b, "X-Forwarded-Host", name)

	for _, v := range r.Header["Via"] {
		b = upstream.AppendField(b, "Via", v)
	}
	if rt.o.Via {
		b = strconv.AppendInt(append(b, "Via: "...), int64(r.ProtoMajor), 10)
		b = strconv.AppendInt(append(b, '.'), int64(r.ProtoMinor), 10)
		b = append(b, " admitd\r\n"...)
	}
	return b
}

// clientAddr returns the IP address of the client, "unknown" when it has none:
// nothing else reaches a header.
func clientAddr(remote string) string {
	h := host(remote)
	for i := range len(h) { // of an address that net made; this only keeps all others out
		if c := h[i]; (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') && c != ':' && c != '.' {
			return "unknown"
		}
	}
	return h
}

// appendTrailerNames announces the trailers that the client announced.
func appendTrailerNames(b []byte, r *http.Request) []byte {
	sep := "Trailer: "
	for name := range r.Trailer {
		b = append(append(b, sep...), name...)
		sep = ", "
	}
	if sep == ", " {
		b = append(b, "\r\n"...)
	}
	return b
}
