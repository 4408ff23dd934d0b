package httpgate

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/admitd/admitd/internal/ingress/httpgate/target"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/limiter"
)

// saw tells who sent a request, once it is decided, if somebody wants to know.
func (rt *route) saw(r *http.Request, err error) {
	if !rt.o.TopKeys.Due() {
		return
	}
	_, refused := errors.AsType[*limiter.Rejection](err)
	a := topkeys.Asker{
		Application: product(first(r.Header["User-Agent"])), Operation: topkeys.Operation{Verb: r.Method, Object: target.Family(r.URL.Path)},
	}
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		a.Client = from.Addr().Unmap()
	}
	rt.o.TopKeys.Saw(&a, refused)
}

// product returns the name of the first product of a User-Agent, without its
// version.
func product(agent string) string {
	if i := strings.IndexAny(agent, "/ ("); i >= 0 {
		return agent[:i]
	}
	return agent
}
