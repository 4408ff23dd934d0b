package httpgate

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/admitd/admitd/askers"
	"github.com/admitd/admitd/limiter"
)

// saw tells who sent a request, once it is decided, if somebody wants to know.
func (rt *route) saw(r *http.Request, err error) {
	if !rt.o.Askers.Due() {
		return
	}
	_, refused := errors.AsType[*limiter.Rejection](err)
	a := askers.Asker{
		Application: product(first(r.Header["User-Agent"])), Operation: askers.Operation{Verb: r.Method, Object: family(r.URL.Path)},
	}
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		a.Client = from.Addr().Unmap()
	}
	rt.o.Askers.Saw(&a, refused)
}

// product returns the name of the first product of a User-Agent, without its
// version.
func product(agent string) string {
	if i := strings.IndexAny(agent, "/ ("); i >= 0 {
		return agent[:i]
	}
	return agent
}

// family returns the head of a path that many requests share: its first segment,
// and the second where the first is a version or says that it is an interface.
func family(path string) string {
	segments := 1
	if rest := strings.TrimPrefix(path, "/"); strings.HasPrefix(rest, "api/") || isVersion(rest) {
		segments = 2
	}
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if segments--; segments == 0 {
			return path[:i]
		}
	}
	return path
}

// isVersion reports whether a path without its slash begins with one, such as v2/.
func isVersion(path string) bool {
	head, _, ok := strings.Cut(path, "/")
	return ok && len(head) > 1 && len(head) < 5 && head[0] == 'v' && strings.Trim(head[1:], "0123456789") == ""
}
