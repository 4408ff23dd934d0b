package admin

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/admitd/admitd/internal/httpjson"
)

// Errors of the tuner's side.
var (
	// ErrNoTuner: the configuration has none. Answered with 404.
	ErrNoTuner = errors.New("admin: no tuner is configured")
	// ErrNotFound: what is named does not exist. Answered with 404.
	ErrNotFound = errors.New("admin: not found")
	// ErrConflict: it cannot be done as things are. Answered with 409.
	ErrConflict = errors.New("admin: conflict")
)

// Tuner is the policy engine. Safe for concurrent use. Every method may return
// [ErrNoTuner].
type Tuner interface {
	// Tuner returns the state, for JSON, with at most so many records; all when
	// records is negative.
	Tuner(records int) (any, error)
	// TunerRecord returns one decision, for JSON, or [ErrNotFound].
	TunerRecord(id string) (any, error)
	// FreezeTuner stops every change. by is who asked.
	FreezeTuner(by string) error
	// UnfreezeTuner lets it go on; with a name it releases only that policy or
	// setting, or returns [ErrNotFound].
	UnfreezeTuner(by, name string) error
	// RevertTuner takes everything back, or with an ID one change, and returns
	// the settings. Errors are [ErrNotFound] and [ErrConflict].
	RevertTuner(ctx context.Context, by, id string) ([]string, error)
}

// defaultRecords is how many decisions are listed unless ?records= says so.
const defaultRecords = 50

// tunerState answers with the tuner's state and its newest decisions.
func (s *changeHandlers) tunerState(w http.ResponseWriter, r *http.Request) {
	n := defaultRecords
	if q := r.URL.Query().Get("records"); q != "" {
		var err error
		if n, err = strconv.Atoi(q); err != nil {
			httpjson.Fail(w, http.StatusBadRequest, "records: want a number, negative for all")
			return
		}
	}
	s.answerTuner(w, r, func() (any, error) { return s.o.Tuner.Tuner(n) })
}

func (s *changeHandlers) tunerRecord(w http.ResponseWriter, r *http.Request) {
	s.answerTuner(w, r, func() (any, error) { return s.o.Tuner.TunerRecord(chi.URLParam(r, "id")) })
}

func (s *changeHandlers) freezeTuner(w http.ResponseWriter, r *http.Request) {
	s.answerTuner(w, r, func() (any, error) { return map[string]bool{"frozen": true}, s.o.Tuner.FreezeTuner(s.guard.who(r)) })
}

// unfreezeTuner releases everything, or what ?name= names.
func (s *changeHandlers) unfreezeTuner(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	s.answerTuner(w, r, func() (any, error) {
		return map[string]bool{"released": true}, s.o.Tuner.UnfreezeTuner(s.guard.who(r), name)
	})
}

func (s *changeHandlers) revertTuner(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	s.answerTuner(w, r, func() (any, error) {
		settings, err := s.o.Tuner.RevertTuner(ctx, s.guard.who(r), chi.URLParam(r, "id"))
		if settings == nil {
			settings = []string{}
		}
		return map[string][]string{"reverted": settings}, err
	})
}

// answerTuner answers with what ask returns.
func (s *changeHandlers) answerTuner(w http.ResponseWriter, r *http.Request, ask func() (any, error)) {
	v, err := any(nil), ErrNoTuner
	if s.o.Tuner != nil {
		v, err = ask()
	}
	switch {
	case err == nil:
		httpjson.JSON(w, http.StatusOK, v)
	case errors.Is(err, ErrNoTuner), errors.Is(err, ErrNotFound):
		httpjson.Fail(w, http.StatusNotFound, err.Error())
	case errors.Is(err, ErrConflict):
		httpjson.Fail(w, http.StatusConflict, err.Error())
	default:
		s.failWith(w, r, err)
	}
}
