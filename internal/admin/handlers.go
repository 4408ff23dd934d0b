package admin

import (
	"net/http"
	"time"

	"github.com/admitd/admitd/internal/httpjson"
)

// healthz answers that the process is alive.
func (*readHandlers) healthz(w http.ResponseWriter, _ *http.Request) {
	httpjson.JSON(w, http.StatusOK, map[string]string{"status": "alive"})
}

// readyz answers whether traffic should be sent here.
func (s *readHandlers) readyz(w http.ResponseWriter, _ *http.Request) {
	h := s.o.State.Health()
	status, code := "ready", http.StatusOK
	switch {
	case h.Draining:
		status, code = "draining", http.StatusServiceUnavailable
	case !h.Listening:
		status, code = "starting", http.StatusServiceUnavailable
	}
	httpjson.JSON(w, code, struct {
		Status string   `json:"status"`
		Detail []string `json:"detail,omitempty"`
	}{status, append(h.Detail, s.book.Bad(time.Now())...)})
}

// config answers with the effective configuration.
func (s *readHandlers) config(w http.ResponseWriter, _ *http.Request) {
	httpjson.JSON(w, http.StatusOK, s.o.Settings.Config())
}

// changes tells what was changed at run time.
func (s *readHandlers) changes(w http.ResponseWriter, _ *http.Request) {
	httpjson.JSON(w, http.StatusOK, map[string]any{"changes": s.o.Settings.Changes()})
}

// lines answers with the last lines of the log.
func (s *readHandlers) lines(w http.ResponseWriter, _ *http.Request) {
	if s.o.Lines == nil {
		httpjson.Fail(w, http.StatusNotFound, "no log is kept here")
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(s.o.Lines()) // the client went away: nothing to do
}

// fleet answers with how the daemon stands in its group.
func (s *readHandlers) fleet(w http.ResponseWriter, _ *http.Request) {
	if s.o.Fleet != nil {
		if f := s.o.Fleet(); f != nil {
			httpjson.JSON(w, http.StatusOK, f)
			return
		}
	}
	httpjson.Fail(w, http.StatusNotFound, "nothing is shared: fleet.redis.addresses is empty")
}
