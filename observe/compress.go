package observe

import (
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
)

// compressed answers with gzip at its fastest level when the client takes it.
func compressed(plain http.Handler) http.Handler {
	writers := sync.Pool{New: func() any {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a valid one
		return w
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if !takesGzip(r.Header.Get("Accept-Encoding")) {
			plain.ServeHTTP(w, r)
			return
		}
		z, _ := writers.Get().(*gzip.Writer)
		defer writers.Put(z)
		z.Reset(w)
		w.Header().Set("Content-Encoding", "gzip")
		plain.ServeHTTP(&gzipWriter{ResponseWriter: w, z: z}, r)
		_ = z.Close() // the scraper went away: nothing to do
	})
}

// takesGzip reads Accept-Encoding, as far as scrapers write it.
func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		name, q, weighted := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == "gzip" {
			return !weighted || strings.Trim(strings.TrimSpace(q), "q=0.") != ""
		}
	}
	return false
}

// gzipWriter compresses what is written to it.
type gzipWriter struct {
	http.ResponseWriter

	z *gzip.Writer
}

// Write implements [http.ResponseWriter].
func (g *gzipWriter) Write(b []byte) (int, error) { return g.z.Write(b) }
