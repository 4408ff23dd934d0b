package decide

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/admitd/admitd/internal/httpjson"
)

// maxBody bounds the body of a request in bytes: a full batch with the longest
// names fits.
const maxBody = 256 << 10

// HeaderToken carries the token where Authorization is the client's own, as in
// the requests of Traefik's forwardAuth.
const HeaderToken = "X-Admitd-Token" //nolint:gosec // the name of the header, not a token

// api answers over HTTP.
type api struct {
	decider *Decider
	log     *slog.Logger // never nil
}

// admissions routes the decision API.
func (s *api) admissions(r chi.Router) {
	r.Post("/v1/admissions", s.admit)
	r.Post("/v1/admissions/batch", s.batch)
	r.Delete("/v1/admissions/{permit}", s.release)
}

// routes lists every path of the listener.
func (s *Server) routes() http.Handler {
	api := &api{decider: s.decider, log: s.o.Log}
	r := chi.NewRouter()
	r.Use(httpjson.Bound(maxBody, writeTimeout))
	r.NotFound(httpjson.NoSuchPath)
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		path := cmp.Or(req.URL.RawPath, req.URL.Path) // as it was routed
		if !httpjson.NotAllowed(w, req, func(method string) bool { return r.Match(chi.NewRouteContext(), method, path) }) {
			httpjson.NoSuchPath(w, req) // a method that nobody knows comes here whatever the path
		}
	})
	r.Get("/readyz", s.readyz)
	r.Group(func(r chi.Router) {
		r.Use(s.token.ask, jsonOnly)
		r.Get("/v1/authorize", api.authorize)
		api.admissions(r)
	})
	return r
}

// readyz tells whether who asks should ask here.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if !s.o.Ready() {
		httpjson.Fail(w, http.StatusServiceUnavailable, "draining, or not listening yet")
		return
	}
	httpjson.JSON(w, http.StatusOK, map[string]bool{"ready": true})
}

// jsonOnly refuses bodies that a plain web form could have sent: a page in
// somebody's browser must not spend what is not its own.
func jsonOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && r.Method == http.MethodPost {
			kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
			if err != nil || kind != "application/json" {
				httpjson.Fail(w, http.StatusUnsupportedMediaType, "the body must be application/json")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// token is what callers have to know. A nil digest asks for nothing.
type token struct {
	digest func() *[sha256.Size]byte
}

// ask lets those pass who know the token.
func (t token) ask(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want := t.digest(); want != nil && !carries(r, want) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="admitd"`)
			httpjson.Fail(w, http.StatusUnauthorized, "the token of the decision API is needed")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// carries reports whether the request carries the token. Digests are compared,
// so that the time tells neither content nor length.
func carries(r *http.Request, want *[sha256.Size]byte) bool {
	given := r.Header.Get(HeaderToken)
	if given == "" {
		scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "bearer") {
			return false
		}
		given = bearer
	}
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], want[:]) == 1
}

// fail answers with what err means.
func (s *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, ErrUnknownIngress):
		httpjson.Fail(w, http.StatusNotFound, "no such ingress")
	case r.Context().Err() != nil: // the client went away
		httpjson.Fail(w, http.StatusServiceUnavailable, "the request was cancelled")
	default:
		s.log.ErrorContext(r.Context(), "decision failed", slog.String("path", r.URL.Path), slog.Any("error", err))
		httpjson.Fail(w, http.StatusInternalServerError, err.Error())
	}
}

// refuse answers with what the gate, or the way to it, said.
func (s *api) refuse(w http.ResponseWriter, r *http.Request, a *Ask, err error) {
	doc, form, ok := s.decider.Refusal(a, err)
	if !ok {
		s.fail(w, r, err)
		return
	}
	httpjson.Refuse(w, &doc, form)
}
