package admin

import (
	"log/slog"
	"net/http"
	"strconv"
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
	}{status, h.Detail})
}

// status answers with everything that exists now. ?ingress= narrows it to one,
// ?partitions= bounds the partitions listed per ingress.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	snapshot := s.o.State.Snapshot()
	bound := -1
	if q := r.URL.Query().Get("partitions"); q != "" {
		n, err := strconv.Atoi(q)
		if err != nil || n < 0 {
			fail(w, http.StatusBadRequest, "partitions: want a number ≥ 0")
			return
		}
		bound = n
	}
	if name := r.URL.Query().Get("ingress"); name != "" {
		only := snapshot.Ingresses[:0]
		for _, in := range snapshot.Ingresses {
			if in.Name == name {
				only = append(only, in)
			}
		}
		if len(only) == 0 {
			fail(w, http.StatusNotFound, "no such ingress")
			return
		}
		snapshot.Ingresses = only
	}
	answer(w, http.StatusOK, newStatus(&snapshot, time.Now(), bound))
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
	answer(w, http.StatusOK, map[string]bool{"reloaded": true})
}

// patch changes one ingress while it runs.
func (s *Server) patch(w http.ResponseWriter, r *http.Request) {
	var p Patch
	if !read(w, r, &p) {
		return
	}
	name := chi.URLParam(r, "name")
	before, after, err := s.o.Settings.Patch(r.Context(), name, p)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.o.Log.InfoContext(r.Context(), "settings changed at run time",
		slog.String("ingress", name), slog.String("client", r.RemoteAddr))
	answer(w, http.StatusOK, struct {
		Ingress string `json:"ingress"`
		Before  any    `json:"before"`
		After   any    `json:"after"`
	}{name, before, after})
}
