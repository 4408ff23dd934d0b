package admin

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/admitd/admitd/limiter"
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

// status answers with everything that exists now. ?ingress= narrows it to one.
// ?partitions= bounds how many of clients' keys are listed per ingress, in the
// order of their names, 0 = no partition at all, and ?after= begins behind a
// name: pages. Those of the configuration are on the first one. Without any of
// these the answer is shared for a second, or until a setting changes: anyone may
// ask for it, and it takes time proportional to the partitions.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name, after, bound := q.Get("ingress"), q.Get("after"), q.Get("partitions")
	if name == "" && after == "" && bound == "" {
		s.whole.ServeHTTP(w, r)
		return
	}
	o := limiter.StatusOptions{After: after}
	if bound != "" {
		n, err := strconv.Atoi(bound)
		if err != nil || n < 0 {
			fail(w, http.StatusBadRequest, "partitions: want a number ≥ 0")
			return
		}
		if o.Partitions = n; n == 0 {
			o.Partitions = -1 // none; 0 would be all
		}
	}
	none := bound != "" && o.Partitions < 0
	snapshot := s.o.State.Snapshot(name, o)
	if name != "" && len(snapshot.Ingresses) == 0 {
		fail(w, http.StatusNotFound, "no such ingress")
		return
	}
	if none {
		for i := range snapshot.Ingresses {
			snapshot.Ingresses[i].Gate.Partitions = nil
		}
	}
	answerTo(w, r, newStatus(&snapshot, time.Now(), &s.book))
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
	s.whole.forget()
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
	s.whole.forget()
	s.book.Mark(time.Now(), name, "settings changed")
	s.o.Log.InfoContext(r.Context(), "settings changed at run time",
		slog.String("ingress", name), slog.String("client", r.RemoteAddr))
	answer(w, http.StatusOK, struct {
		Ingress string `json:"ingress"`
		Before  any    `json:"before"`
		After   any    `json:"after"`
	}{name, before, after})
}
