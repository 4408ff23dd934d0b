package httpgate

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

const (
	// smallBody is how much of a refused request's body is read away so that
	// the connection stays usable. Above it, closing is cheaper for both.
	smallBody = 64 << 10
	// drainTimeout bounds that reading.
	drainTimeout = time.Second
)

// Header values that never change are shared. net/http only reads them.
var (
	problemType = []string{"application/problem+json"} //nolint:gochecknoglobals // constant
	closeValue  = []string{"close"}                    //nolint:gochecknoglobals // constant
	noStore     = []string{"no-store"}                 //nolint:gochecknoglobals // constant
)

// documents holds buffers for bodies of refusals.
var documents = sync.Pool{New: func() any { return new([]byte) }} //nolint:gochecknoglobals // a pool is global by nature

// refuse answers a request that was not admitted and returns the status.
func (rt *route) refuse(w http.ResponseWriter, r *http.Request, rej *limiter.Rejection, cost float64) int {
	doc := rej.Document(cost, !rt.o.NoHints)
	if rt.o.Status != 0 {
		doc.Status = rt.o.Status
	}
	h := w.Header()
	h[labels.HeaderReason] = []string{string(doc.Reason)}
	if !rt.o.NoHints && doc.Reason.Retryable() {
		h["Retry-After"] = []string{strconv.FormatInt(retryAfter(doc.RetryAfterMS), 10)}
	}
	if rt.o.Rate != nil && (doc.Reason == labels.RequestRate || doc.Reason == labels.CostExceedsBurst) {
		rateHeaders(h, rt.o.Rate(rej.Partition), retryAfter(doc.RetryAfterMS))
	}
	if doc.Reason == labels.Draining {
		h["Connection"] = closeValue
	}
	h["Cache-Control"] = noStore
	spare(w, r)
	buf, _ := documents.Get().(*[]byte)
	*buf = doc.AppendJSON((*buf)[:0])
	answer(w, doc.Status, *buf)
	documents.Put(buf)
	return doc.Status
}

// retryAfter returns whole seconds, rounded up, at least 1: a client that is
// told 0 comes back at once.
func retryAfter(ms int64) int64 { return max((ms+999)/1000, 1) }

// rateHeaders sets the RateLimit fields of
// draft-ietf-httpapi-ratelimit-headers. The window is the time in which the
// bucket fills, in whole seconds and long enough for one token.
func rateHeaders(h http.Header, r limiter.Rate, wait int64) {
	if !(r.PerSecond > 0) {
		return
	}
	burst := r.BurstSeconds
	if !(burst > 0) {
		burst = 1
	}
	window := math.Ceil(max(burst, 1/r.PerSecond))
	quota := max(math.Floor(r.PerSecond*window), 1)
	h["Ratelimit-Policy"] = []string{`"requests";q=` + strconv.FormatFloat(quota, 'f', 0, 64) +
		";w=" + strconv.FormatFloat(window, 'f', 0, 64)}
	h["Ratelimit"] = []string{`"requests";r=0;t=` + strconv.FormatInt(wait, 10)}
}

// spare prepares an answer to a request whose body nobody will read. A small
// body is read away after the answer is sent, within a bound; otherwise the
// connection is closed after the answer. A client that waits for 100-continue
// gets the answer instead.
func spare(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || r.ProtoMajor != 1 {
		return
	}
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		w.Header()["Connection"] = closeValue
		return
	}
	rc := http.NewResponseController(w)
	if rc.EnableFullDuplex() != nil || rc.SetReadDeadline(time.Now().Add(drainTimeout)) != nil {
		w.Header()["Connection"] = closeValue
	}
}

// problem answers a request that failed for another reason than overload. The
// document is a plain RFC 9457 problem: clients must not take it for a
// rejection, after which work is known not to have run.
func problem(w http.ResponseWriter, r *http.Request, status int, detail string) {
	spare(w, r)
	buf, _ := documents.Get().(*[]byte)
	b := append((*buf)[:0], `{"type":"about:blank","title":`...)
	b = strconv.AppendQuote(b, http.StatusText(status))
	b = strconv.AppendInt(append(b, `,"status":`...), int64(status), 10)
	b = strconv.AppendQuote(append(b, `,"detail":`...), detail)
	*buf = append(b, '}')
	answer(w, status, *buf)
	documents.Put(buf)
}

// answer writes a document.
func answer(w http.ResponseWriter, status int, doc []byte) {
	h := w.Header()
	h["Content-Type"] = problemType
	h["Content-Length"] = []string{strconv.Itoa(len(doc))}
	w.WriteHeader(status)
	_, _ = w.Write(doc) // when it fails the client is gone
}
