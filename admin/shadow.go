package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/admitd/admitd/status"
)

// Shadow are the candidates: other limits that decide on the same requests and
// refuse nobody. Safe for concurrent use.
type Shadow interface {
	// Candidates returns what each would have done.
	Candidates() []status.Candidate
	// Promote puts one in force as [Settings.Patch] does: all of it, or nothing.
	// Errors are those of Patch and [ErrNotFound].
	Promote(ctx context.Context, name string) (ingress string, before, after any, err error)
}

// candidates answers with what every candidate would have done.
func (s *Server) candidates(w http.ResponseWriter, _ *http.Request) {
	list := []status.Candidate{}
	if s.o.Shadow != nil {
		list = s.o.Shadow.Candidates()
	}
	answer(w, http.StatusOK, map[string]any{"candidates": list})
}

// promote puts a candidate in force.
func (s *Server) promote(w http.ResponseWriter, r *http.Request) {
	if s.o.Shadow == nil {
		fail(w, http.StatusNotFound, "there are no candidates")
		return
	}
	name := chi.URLParam(r, "name")
	ingress, before, after, err := s.o.Shadow.Promote(r.Context(), name)
	if errors.Is(err, ErrNotFound) {
		fail(w, http.StatusNotFound, err.Error())
		return
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.press.forget()
	s.book.Mark(time.Now(), ingress, "candidate "+name+" promoted")
	s.o.Log.InfoContext(r.Context(), "candidate promoted",
		slog.String("candidate", name), slog.String("ingress", ingress), slog.String("by", s.who(r)))
	answer(w, http.StatusOK, map[string]any{"candidate": name, "ingress": ingress, "before": before, "after": after})
}
