package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/admitd/admitd/internal/httpjson"
	"github.com/admitd/admitd/status"
)

// Shadow are the candidates: other limits that decide on the same requests and
// refuse nobody. Safe for concurrent use.
type Shadow interface {
	// Candidates returns what each would have done.
	Candidates() []status.Candidate
	// Promote puts one in force as [Settings.Patch] does: all of it, or nothing.
	// Errors are those of Patch and [ErrNotFound].
	Promote(ctx context.Context, name string) (Promotion, error)
	// Demote takes a promotion back. Errors are those of Patch, [ErrNotFound], and
	// [ErrConflict] when the settings were changed since.
	Demote(ctx context.Context, id string) (Promotion, error)
}

// Promotion is a candidate that was put in force, or taken back.
type Promotion struct {
	ID        string `json:"id"`
	Candidate string `json:"candidate"`
	Ingress   string `json:"ingress"`
	Before    any    `json:"before"` // settings of the ingress, for JSON
	After     any    `json:"after"`
}

// candidates answers with what every candidate would have done.
func (s *changeHandlers) candidates(w http.ResponseWriter, _ *http.Request) {
	list := []status.Candidate{}
	if s.o.Shadow != nil {
		list = s.o.Shadow.Candidates()
	}
	httpjson.JSON(w, http.StatusOK, map[string]any{"candidates": list})
}

// promote puts a candidate in force.
func (s *changeHandlers) promote(w http.ResponseWriter, r *http.Request) {
	if s.o.Shadow == nil {
		httpjson.Fail(w, http.StatusNotFound, "there are no candidates")
		return
	}
	p, err := s.o.Shadow.Promote(r.Context(), chi.URLParam(r, "name"))
	if err != nil {
		s.failToPromote(w, r, err)
		return
	}
	s.promoted(r, &p, "promoted")
	httpjson.JSON(w, http.StatusOK, struct {
		Promotion

		Undo string `json:"undo"` // what to ask for to take it back
	}{p, "DELETE /v1/shadow/promotions/" + p.ID})
}

// demote takes a promotion back.
func (s *changeHandlers) demote(w http.ResponseWriter, r *http.Request) {
	if s.o.Shadow == nil {
		httpjson.Fail(w, http.StatusNotFound, "there are no candidates")
		return
	}
	p, err := s.o.Shadow.Demote(r.Context(), chi.URLParam(r, "id"))
	if err != nil {
		s.failToPromote(w, r, err)
		return
	}
	s.promoted(r, &p, "taken back")
	httpjson.JSON(w, http.StatusOK, p)
}

func (s *changeHandlers) failToPromote(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, ErrNotFound):
		httpjson.Fail(w, http.StatusNotFound, err.Error())
	case errors.Is(err, ErrConflict):
		httpjson.Fail(w, http.StatusConflict, err.Error())
	default:
		s.failWith(w, r, err)
	}
}

// promoted marks and logs what became of a candidate.
func (s *changeHandlers) promoted(r *http.Request, p *Promotion, what string) {
	s.cache.Forget()
	s.book.Mark(time.Now(), p.Ingress, "candidate "+p.Candidate+" "+what)
	s.o.Log.InfoContext(r.Context(), "candidate changed", slog.String("what", what), slog.String("id", p.ID),
		slog.String("candidate", p.Candidate), slog.String("ingress", p.Ingress), slog.String("by", s.guard.who(r)))
}
