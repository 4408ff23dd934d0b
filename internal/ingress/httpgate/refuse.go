package httpgate

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate/fastpath"
	"github.com/admitd/admitd/internal/ingress/httpgate/h2"
	"github.com/admitd/admitd/internal/ingress/httpgate/roundtrip"
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
)

// documents holds buffers for bodies of refusals.
var documents = sync.Pool{New: func() any { return new([]byte) }} //nolint:gochecknoglobals // a pool is global by nature

// refuse answers a request that was not admitted. It returns the status and
// whether the connection must be cut.
func (rt *route) refuse(w http.ResponseWriter, r *http.Request, rej *limiter.Rejection, a *admission) (status int, cut bool) {
	said, kept := rt.worded.find(rt, cause{rej, rej.Class(a.req.Class), rt.rateOf(rej)})
	var retryAfter, baseBackoff int64
	if !rt.o.NoHints {
		retryAfter, baseBackoff = rej.Hint(a.req).Milliseconds()
	}
	timing := a.own.Timing()
	if status = said.Status(); fastpath.IsPlain(w) {
		fastpath.Refuse(w, &said.Wording, retryAfter, baseBackoff, labels.Field{Name: roundtrip.TimingHeader, Value: timing})
	} else if !h2.Refuse(w, &said.stream, retryAfter, baseBackoff, labels.Field{Name: roundtrip.TimingHeader, Value: timing}) {
		h := w.Header()
		said.set(h, labels.RetryAfterSeconds(retryAfter))
		if timing != "" {
			h[roundtrip.TimingHeader] = []string{timing}
		}
		buf, _ := documents.Get().(*[]byte)
		*buf = said.AppendDocument((*buf)[:0], retryAfter, baseBackoff)
		cut = answer(w, r, status, *buf)
		documents.Put(buf)
	}
	if !kept {
		spares.Put(said)
	}
	return status, cut
}

// rateOf returns the rate that refused, for the answer to name; zero = none did.
func (rt *route) rateOf(rej *limiter.Rejection) limiter.Rate {
	if rt.o.Rate == nil || !rej.Reason.ByRate() {
		return limiter.Rate{}
	}
	return rt.o.Rate(rej.Partition)
}

// form is how refusals by a rate, or by none, are worded.
func (rt *route) form(rate limiter.Rate) labels.HTTPForm {
	return labels.HTTPForm{NoHints: rt.o.NoHints, Status: rt.o.Status, PerSecond: rate.PerSecond, BurstSeconds: rate.BurstSeconds}
}

// spare prepares an answer to a request whose body nobody will read, and
// reports whether the body is small enough to be read away afterwards, so that
// the connection stays usable. Otherwise the connection is closed after the
// answer; of HTTP/2 the stream alone is, which some clients (curl 7.88) take for
// an error in the place of the answer. A client that waits for 100-continue gets the answer instead.
func spare(w http.ResponseWriter, r *http.Request) bool {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return false
	}
	if r.ContentLength > 0 && r.ContentLength <= smallBody && r.Header["Expect"] == nil &&
		http.NewResponseController(w).EnableFullDuplex() == nil {
		return true
	}
	if r.ProtoMajor == 1 {
		w.Header()["Connection"] = closeValue
	}
	return false
}

// readAway reads the rest of a small body after the answer. net/http must not
// do it, because it would do so before the answer is sent. It reports false
// when the body does not come in time: what comes later is no request.
func readAway(w http.ResponseWriter, r *http.Request) bool {
	rc := http.NewResponseController(w)
	if rc.Flush() != nil || rc.SetReadDeadline(time.Now().Add(drainTimeout)) != nil {
		return false
	}
	if _, err := io.CopyN(io.Discard, r.Body, smallBody+1); !errors.Is(err, io.EOF) {
		return false
	}
	_ = rc.SetReadDeadline(time.Time{}) // net/http sets its own before it reads on
	return true
}

// Problem implements [roundtrip.Gate]: it answers a request that failed for another
// reason than overload. The document is a plain RFC 9457 problem: clients must not
// take it for a rejection, after which work is known not to have run. It reports
// whether the connection must be cut.
func (rt *route) Problem(w http.ResponseWriter, r *http.Request, status int, detail string) (cut bool) {
	if status < 500 || status == http.StatusNotImplemented { // it is the client's fault
		rt.counts.Invalid(status)
	}
	buf, _ := documents.Get().(*[]byte)
	b := append((*buf)[:0], `{"type":"about:blank","title":`...)
	b = strconv.AppendQuote(b, http.StatusText(status))
	b = strconv.AppendInt(append(b, `,"status":`...), int64(status), 10)
	b = strconv.AppendQuote(append(b, `,"detail":`...), detail)
	*buf = append(b, '}')
	cut = answer(w, r, status, *buf)
	documents.Put(buf)
	return cut
}

// answer writes a document instead of reading the request's body. It reports
// whether the connection must be cut.
func answer(w http.ResponseWriter, r *http.Request, status int, doc []byte) (cut bool) {
	small := spare(w, r)
	h := w.Header()
	h["Content-Type"] = problemType
	h["Content-Length"] = []string{strconv.Itoa(len(doc))}
	w.WriteHeader(status)
	_, _ = w.Write(doc) // when it fails the client is gone
	return small && h["Connection"] == nil && !readAway(w, r) && r.ProtoMajor == 1
}
