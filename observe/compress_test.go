package observe_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/admitd/admitd/observe"
)

// A scraper that takes gzip gets the same page compressed, and one that does
// not gets it plain.
func TestHandlerCompresses(t *testing.T) {
	h := observe.New(observe.Options{Version: "1.2.3"}).Handler()
	for accept, zipped := range map[string]bool{
		"": false, "identity": false, "gzip": true, "deflate, gzip;q=0.5": true, "gzip;q=0": false, "gzip;q=0.0": false, "br": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
		r.Header.Set("Accept-Encoding", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		body := w.Body.Bytes()
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != zipped {
			t.Errorf("Accept-Encoding %q: gzip = %v; want %v", accept, got, zipped)
			continue
		}
		if zipped {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatalf("Accept-Encoding %q: %v", accept, err)
			}
			if body, err = io.ReadAll(z); err != nil {
				t.Fatalf("Accept-Encoding %q: %v", accept, err)
			}
		}
		if !bytes.Contains(body, []byte("admitd_build_info")) {
			t.Errorf("Accept-Encoding %q: the page lacks admitd_build_info", accept)
		}
	}
}
