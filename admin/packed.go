package admin

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strings"
)

// worthPacking is from how many bytes on an answer is compressed.
const worthPacking = 4 << 10

// answerTo answers with JSON, packed where that is worth it and the client takes
// it.
func answerTo(w http.ResponseWriter, r *http.Request, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	var packed []byte
	if b = append(b, '\n'); len(b) >= worthPacking && takesGzip(r) {
		packed = compress(b)
	}
	send(w, b, packed)
}

// send writes an answer, packed if it is there.
func send(w http.ResponseWriter, plain, packed []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Add("Vary", "Accept-Encoding")
	if packed != nil {
		h.Set("Content-Encoding", "gzip")
		plain = packed
	}
	_, _ = w.Write(plain) // the client went away: nothing to do
}

// compress compresses at the fastest level.
func compress(b []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // the level is a valid one
	_, _ = z.Write(b)                                 // into memory
	_ = z.Close()
	return out.Bytes()
}

// takesGzip reads Accept-Encoding.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, weighted := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == "gzip" {
			return !weighted || strings.Trim(strings.TrimSpace(q), "q=0.") != ""
		}
	}
	return false
}
