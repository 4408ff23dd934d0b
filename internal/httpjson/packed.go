package httpjson

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strings"
)

// worthPacking is from how many bytes on an answer is compressed.
const worthPacking = 4 << 10

// Packed answers with JSON, packed where that is worth it and the client takes
// it.
func Packed(w http.ResponseWriter, r *http.Request, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		Fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	var packed []byte
	if b = append(b, '\n'); TakesGzip(r) {
		packed = Pack(b)
	}
	Send(w, b, packed)
}

// Send writes an answer, packed if it is there.
func Send(w http.ResponseWriter, plain, packed []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Add("Vary", "Accept-Encoding")
	if packed != nil {
		h.Set("Content-Encoding", "gzip")
		plain = packed
	}
	_, _ = w.Write(plain) // the client went away: nothing to do
}

// Pack returns b compressed at the fastest level, nil where that is not worth it.
func Pack(b []byte) []byte {
	if len(b) < worthPacking {
		return nil
	}
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // the level is a valid one
	_, _ = z.Write(b)                                 // into memory
	_ = z.Close()
	return out.Bytes()
}

// TakesGzip reports whether the client takes what [Pack] returns.
func TakesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, weighted := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == "gzip" {
			return !weighted || strings.Trim(strings.TrimSpace(q), "q=0.") != ""
		}
	}
	return false
}
