package admin

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/vitals"
)

const (
	wholeAge     = time.Second // for which one status is shared
	worthPacking = 4 << 10     // bytes; less is sent as it is
)

// whole answers with the status of everything. Many who ask in one second cost
// one snapshot.
type whole struct {
	state State
	book  *vitals.Book

	mu     sync.Mutex // guards the fields below; held while one caller reads
	at     time.Time
	plain  []byte
	packed []byte // gzip
}

// ServeHTTP implements [http.Handler].
func (a *whole) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	plain, packed, err := a.read(takesGzip(r))
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	send(w, plain, packed)
}

// read returns the present answer, packed when that is asked for.
func (a *whole) read(pack bool) (plain, packed []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); a.plain == nil || now.Sub(a.at) >= wholeAge {
		snapshot := a.state.Snapshot("", limiter.StatusOptions{})
		b, err := json.Marshal(newStatus(&snapshot, now, a.book))
		if err != nil {
			return nil, nil, err
		}
		a.at, a.plain, a.packed = now, append(b, '\n'), nil
	}
	if !pack || len(a.plain) < worthPacking {
		return a.plain, nil, nil
	}
	if a.packed == nil {
		a.packed = compress(a.plain)
	}
	return a.plain, a.packed, nil
}

// forget has the next one who asks see what was just changed. It is safe for
// concurrent use.
func (a *whole) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plain = nil
}

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
	_, _ = w.Write(plain) //nolint:gosec // JSON, sent as such; the client went away: nothing to do
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
