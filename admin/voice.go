package admin

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/admitd/admitd/answers"
)

// voice words what went wrong.
type voice struct{ log *slog.Logger }

// failWith answers with what err means.
func (s *voice) failWith(w http.ResponseWriter, r *http.Request, err error) {
	invalid, isInvalid := errors.AsType[*Invalid](err)
	switch {
	case isInvalid:
		answers.Fail(w, http.StatusBadRequest, "the settings do not hold; nothing was changed", invalid.Problems...)
	case errors.Is(err, ErrDraining):
		w.Header().Set("Connection", "close")
		answers.Fail(w, http.StatusServiceUnavailable, "the daemon is draining, settings stay as they are")
	case errors.Is(err, ErrChanged):
		answers.Fail(w, http.StatusPreconditionFailed, "the settings are not those of If-Match any more; nothing was changed")
	case errors.Is(err, ErrUnknownOverride):
		answers.Fail(w, http.StatusNotFound, "no such override")
	case errors.Is(err, ErrUnknownIngress):
		answers.Fail(w, http.StatusNotFound, "no such ingress")
	case r.Context().Err() != nil: // the client went away
		answers.Fail(w, http.StatusServiceUnavailable, "the request was cancelled")
	default:
		s.log.ErrorContext(r.Context(), "admin request failed",
			slog.String("path", r.URL.Path), slog.Any("error", err))
		answers.Fail(w, http.StatusInternalServerError, err.Error())
	}
}
