package admin

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
)

// healthz answers that the process is alive.
func (*Server) healthz(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]string{"status": "alive"})
}

// readyz answers whether traffic should be sent here.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	h := s.o.State.Health()
	status, code := "ready", http.StatusOK
	switch {
	case h.Draining:
		status, code = "draining", http.StatusServiceUnavailable
	case !h.Listening:
		status, code = "starting", http.StatusServiceUnavailable
	}
	answer(w, code, struct {
		Status string   `json:"status"`
		Detail []string `json:"detail,omitempty"`
	}{status, append(h.Detail, s.book.Bad(time.Now())...)})
}

// config answers with the effective configuration.
func (s *Server) config(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, s.o.Settings.Config())
}

// reload reads the configuration now.
func (s *Server) reload(w http.ResponseWriter, r *http.Request) {
	if err := s.o.Settings.Reload(r.Context()); err != nil {
		s.failWith(w, r, err)
		return
	}
	s.press.forget()
	s.book.Mark(time.Now(), "", "configuration reloaded")
	answer(w, http.StatusOK, map[string]bool{"reloaded": true})
}

// changes tells what was changed at run time.
func (s *Server) changes(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"changes": s.o.Settings.Changes()})
}

// patch changes one ingress while it runs.
func (s *Server) patch(w http.ResponseWriter, r *http.Request) {
	var p Patch
	if !read(w, r, &p) {
		return
	}
	name := chi.URLParam(r, "name")
	if p.Overrides != nil {
		s.override(w, r, name, p)
		return
	}
	before, after, err := s.o.Settings.Patch(r.Context(), name, p)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.press.forget()
	s.book.Mark(time.Now(), name, "settings changed")
	s.o.Log.InfoContext(r.Context(), "settings changed at run time",
		slog.String("ingress", name), slog.String("client", r.RemoteAddr))
	answer(w, http.StatusOK, struct {
		Ingress string `json:"ingress"`
		Before  any    `json:"before"`
		After   any    `json:"after"`
	}{name, before, after})
}
