package admin

import (
	"cmp"
	"embed"
	"io/fs"
	"net/http"
	"net/http/pprof" // registers on the default mux too, which nothing serves; ours asks for the token

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/admitd/admitd/internal/httpjson"
	"github.com/admitd/admitd/internal/uplot"
	"github.com/admitd/admitd/labels"
)

//go:embed page
var page embed.FS

// routes lists every path of the port.
func (s *Server) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(secureHeaders, httpjson.Bound(maxBody, writeTimeout), s.guard.guardHost, middleware.GetHead)
	r.NotFound(httpjson.NoSuchPath)
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		if !httpjson.NotAllowed(w, req, own(r, req)) { // a file of the live page, or what is looked for among them
			httpjson.NotAllowed(w, req, func(method string) bool { return method == http.MethodGet })
		}
	})

	r.With(s.guard.authorize).Get("/v1/log", s.window.lines)
	r.Get("/healthz", s.window.healthz)
	r.Get("/readyz", s.window.readyz)
	r.Group(s.reads)
	if s.o.Hello != nil {
		r.Method(http.MethodGet, labels.HelloPath, labels.ServeHello(s.o.Hello))
	}
	r.Group(s.changing)
	r.Route("/debug/pprof", func(r chi.Router) {
		r.Use(s.guard.tokenOnly, boundProfile)
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
	r.Method(http.MethodGet, "/lib/*", pageFiles(uplot.Files, r))
	r.Method(http.MethodGet, "/*", pageFiles(files, r))
	return r
}

// reads lists what tells, and changes nothing.
func (s *Server) reads(r chi.Router) {
	if s.o.ReadsNeedToken {
		r.Use(s.guard.authorize)
	}
	r.Get("/v1/status", s.window.status)
	r.Get("/v1/explain/{ingress}", s.window.explain)
	r.Get("/v1/explain/{ingress}/*", s.window.explain)
	r.Get("/v1/history", s.window.history)
	r.Get("/v1/top", s.window.top)
	r.Get("/v1/", s.window.index)
	r.Get("/v1/config", s.window.config)
	r.Get("/v1/changes", s.window.changes)
	r.Get("/v1/ingresses/{name}", s.changes.ingress)
	r.Get("/v1/ingresses/{name}/overrides", s.changes.overrides)
	r.Get("/v1/events", s.window.events)
	r.Get("/v1/tuner", s.changes.tunerState)
	r.Get("/v1/shadow", s.changes.candidates)
	r.Get("/v1/fleet", s.window.fleet)
	r.Get("/v1/tuner/records/{id}", s.changes.tunerRecord)
	if s.o.Metrics != nil {
		r.Method(http.MethodGet, "/metrics", s.o.Metrics)
	}
}

// changing routes what changes something, behind the token.
func (s *Server) changing(r chi.Router) {
	r.Use(sameOrigin, s.guard.authorize, jsonOnly)
	r.Post("/v1/reload", s.changes.reload)
	r.Patch("/v1/ingresses/{name}", s.changes.patch)
	r.Delete("/v1/ingresses/{name}/overrides/{id}", s.changes.undo)
	r.Post("/v1/tuner/freeze", s.changes.freezeTuner)
	r.Post("/v1/shadow/{name}/promote", s.changes.promote)
	r.Delete("/v1/shadow/promotions/{id}", s.changes.demote)
	r.Post("/v1/tuner/unfreeze", s.changes.unfreezeTuner)
	r.Post("/v1/tuner/revert", s.changes.revertTuner)
	r.Post("/v1/tuner/revert/{id}", s.changes.revertTuner)
}

// own tells which methods the path of r is listed with. The live page is not listed.
func own(all chi.Routes, r *http.Request) (has func(method string) bool) {
	path := cmp.Or(r.URL.RawPath, r.URL.Path) // as it was routed
	return func(method string) bool {
		ctx := chi.NewRouteContext()
		return all.Match(ctx, method, path) && ctx.RoutePattern() != "/*"
	}
}

// pageFiles serves the files of the live page, and nothing else: no listings.
func pageFiles(files fs.FS, all chi.Routes) http.Handler {
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := r.URL.Path[1:]; name != "" {
			if info, err := fs.Stat(files, name); err != nil || info.IsDir() {
				if !httpjson.NotAllowed(w, r, own(all, r)) {
					httpjson.NoSuchPath(w, r)
				}
				return
			}
		}
		w.Header().Set("Cache-Control", "no-cache")
		server.ServeHTTP(w, r)
	})
}
