package httpgate

import (
	"net/http"

	"golang.org/x/net/http/httpguts"

	"github.com/admitd/admitd/internal/ingress/httpgate/target"
)

// unacceptable returns the status and the reason when r is not forwarded
// whatever the load is. net/http has checked most of the syntax for HTTP/1.1,
// and [streams] of HTTP/2, whose targets may hold what would frame a message in
// HTTP/1.1.
func (rt *route) unacceptable(r *http.Request) (status int, detail string) {
	switch {
	case r.Method == http.MethodConnect:
		return http.StatusNotImplemented, "CONNECT is not supported"
	case !httpguts.ValidHeaderFieldName(r.Method):
		return http.StatusBadRequest, "the method is not a token"
	case !target.IsValid(target.Of(r)):
		return http.StatusBadRequest, "the request target is not a path, or holds a space, a # or a control character"
	case !httpguts.ValidHostHeader(r.Host):
		return http.StatusBadRequest, "the host is not valid"
	case rt.o.MaxBody > 0 && r.ContentLength > rt.o.MaxBody:
		return http.StatusRequestEntityTooLarge, "the request body is too large"
	}
	if name := rt.id.ambiguous(r); name != "" {
		return http.StatusBadRequest, twice(name)
	}
	return 0, ""
}

// twice says what is wrong with a header that is ambiguous.
func twice(name string) string {
	return "the header " + name + " is there twice, or listed in Connection"
}
