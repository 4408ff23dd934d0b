package admin

import (
	"embed"
	"io/fs"
	"net/http"
	"net/http/pprof" // registers on the default mux too, which nothing serves; ours asks for the token

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/admitd/admitd/labels"
)

//go:embed page
var page embed.FS

// routes lists every path of the port.
func (s *Server) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(secureHeaders, boundAnswer, s.guardHost, middleware.GetHead)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, "no such path: "+r.URL.Path)
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusMethodNotAllowed, r.Method+" is not allowed here")
	})

	r.With(s.authorize).Get("/v1/log", s.lines)
	r.Get("/healthz", s.healthz)
	r.Get("/readyz", s.readyz)
	r.Group(s.reads)
	if s.o.Hello != nil {
		r.Method(http.MethodGet, labels.HelloPath, labels.ServeHello(s.o.Hello))
	}
	r.Group(s.changing)
	r.Route("/debug/pprof", func(r chi.Router) {
		r.Use(s.tokenOnly, boundProfile)
		r.Get("/cmdline", pprof.Cmdline)
		r.Get("/profile", pprof.Profile)
		r.Get("/symbol", pprof.Symbol)
		r.Get("/trace", pprof.Trace)
		r.Get("/*", pprof.Index)
	})
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic("admin: the embedded page is not there: " + err.Error())
	}
	r.Method(http.MethodGet, "/*", pageFiles(files))
	return r
}

// reads lists what tells, and changes nothing.
func (s *Server) reads(r chi.Router) {
	if s.o.ReadsNeedToken {
		r.Use(s.authorize)
	}
	r.Get("/v1/status", s.status)
	r.Get("/v1/explain/{ingress}", s.explain)
	r.Get("/v1/explain/{ingress}/*", s.explain)
	r.Get("/v1/history", s.history)
	r.Get("/v1/top", s.top)
	r.Get("/v1/", s.index)
	r.Get("/v1/config", s.config)
	r.Get("/v1/changes", s.changes)
	r.Get("/v1/ingresses/{name}", s.ingress)
	r.Get("/v1/ingresses/{name}/overrides", s.overrides)
	r.Get("/v1/events", s.events)
	r.Get("/v1/tuner", s.tunerState)
	r.Get("/v1/shadow", s.candidates)
	r.Get("/v1/fleet", s.fleet)
	r.Get("/v1/tuner/records/{id}", s.tunerRecord)
	if s.o.Metrics != nil {
		r.Method(http.MethodGet, "/metrics", s.o.Metrics)
	}
}

// changing routes what changes something, behind the token.
func (s *Server) changing(r chi.Router) {
	r.Use(sameOrigin, s.authorize, jsonOnly)
	r.Post("/v1/reload", s.reload)
	r.Patch("/v1/ingresses/{name}", s.patch)
	r.Delete("/v1/ingresses/{name}/overrides/{id}", s.undo)
	r.Post("/v1/tuner/freeze", s.freezeTuner)
	r.Post("/v1/shadow/{name}/promote", s.promote)
	r.Delete("/v1/shadow/promotions/{id}", s.demote)
	r.Post("/v1/tuner/unfreeze", s.unfreezeTuner)
	r.Post("/v1/tuner/revert", s.revertTuner)
	r.Post("/v1/tuner/revert/{id}", s.revertTuner)
	if s.o.Decisions == nil {
		return
	}
	asks := r.With(s.boundCallers, moved)
	asks.Method(http.MethodPost, "/v1/admissions", s.o.Decisions)
	asks.Method(http.MethodPost, "/v1/admissions/batch", s.o.Decisions)
	asks.Method(http.MethodDelete, "/v1/admissions/{permit}", s.o.Decisions)
}

// pageFiles serves the files of the live page, and nothing else: no listings.
func pageFiles(files fs.FS) http.Handler {
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := r.URL.Path[1:]; name != "" {
			if info, err := fs.Stat(files, name); err != nil || info.IsDir() {
				fail(w, http.StatusNotFound, "no such path: "+r.URL.Path)
				return
			}
		}
		w.Header().Set("Cache-Control", "no-cache")
		server.ServeHTTP(w, r)
	})
}
