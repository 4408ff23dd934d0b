package admin

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/admitd/admitd/internal/httpjson"
)

// errorText words what went wrong.
type errorText struct {
	log   *slog.Logger
	names func() []string // of the ingresses that are there, as far as they were seen
}

// noIngress answers that no ingress has the name that was asked for, and which
// names there are: it is mostly a slip of the hand.
func (s *errorText) noIngress(w http.ResponseWriter) {
	detail := "no such ingress"
	if names := s.names(); len(names) > 0 {
		detail += "; there is " + strings.Join(names, ", ")
	}
	httpjson.Fail(w, http.StatusNotFound, detail)
}

// failWith answers with what err means.
func (s *errorText) failWith(w http.ResponseWriter, r *http.Request, err error) {
	invalid, isInvalid := errors.AsType[*Invalid](err)
	switch {
	case isInvalid:
		httpjson.Fail(w, http.StatusBadRequest, "the settings do not hold; nothing was changed", invalid.Problems...)
	case errors.Is(err, ErrDraining):
		w.Header().Set("Connection", "close")
		httpjson.Fail(w, http.StatusServiceUnavailable, "the daemon is draining, settings stay as they are")
	case errors.Is(err, ErrChanged):
		httpjson.Fail(w, http.StatusPreconditionFailed, "the settings are not those of If-Match any more; nothing was changed")
	case errors.Is(err, ErrUnknownOverride):
		httpjson.Fail(w, http.StatusNotFound, "no such override")
	case errors.Is(err, ErrUnknownIngress):
		s.noIngress(w)
	case r.Context().Err() != nil: // the client went away
		httpjson.Fail(w, http.StatusServiceUnavailable, "the request was cancelled")
	default:
		s.log.ErrorContext(r.Context(), "admin request failed",
			slog.String("path", r.URL.Path), slog.Any("error", err))
		httpjson.Fail(w, http.StatusInternalServerError, err.Error())
	}
}
