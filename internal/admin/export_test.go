package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
)

// Beat takes one reading, as every second does.
func (s *Server) Beat(now time.Time) { s.cache.Beat(now) }

// Pulse takes one each second.
func (s *Server) Pulse(ctx context.Context) { s.cache.Pulse(ctx) }

// Endpoints lists what GET /v1/ lists, as "METHOD path".
func Endpoints() (all []string) {
	for _, e := range endpoints() {
		all = append(all, e.Method+" "+e.Path)
	}
	return all
}

// Routes lists what is routed, but for the page and the profiles.
func (s *Server) Routes() (all []string) {
	_ = chi.Walk(s.handler.(chi.Routes), func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		all = append(all, method+" "+path)
		return nil
	})
	return all
}
