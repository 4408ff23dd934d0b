package httpgate

import (
	"errors"
	"net/http"

	"github.com/admitd/admitd/internal/ingress/httpgate/roundtrip"
	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// Identify opens identification to tests.
func Identify(o Options) (func(*http.Request) limiter.Request, error) {
	o = o.WithDefaults()
	id, err := newIdentifier(&o)
	if err != nil {
		return nil, err
	}
	return id.identify, nil
}

// Upstream returns what keeps the connections to the backend, to be compared.
func (s *Server) Upstream() any { return s.route.Load().out.Pool }

// RequestHead opens the writing of a request's head to tests; it writes none for
// what is not forwarded.
func RequestHead(o Options) (func(*http.Request) []byte, error) {
	o = o.WithDefaults()
	id, errID := newIdentifier(&o)
	up, errUp := upstream.New(o.upstream())
	rt := &route{o: o, id: id, out: roundtrip.Route{Pool: up}}
	return func(r *http.Request) []byte {
		if status, _ := rt.unacceptable(r); status != 0 {
			return nil
		}
		return rt.AppendHead(nil, r, "")
	}, errors.Join(errID, errUp)
}

// AttemptOf is attemptOf.
var AttemptOf = attemptOf //nolint:gochecknoglobals // for tests
