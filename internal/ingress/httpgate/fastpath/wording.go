package fastpath

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/admitd/admitd/internal/ingress/httpgate/h2"
	"github.com/admitd/admitd/labels"
)

// usual is room for the document of a refusal, in bytes.
const usual = 640

// Wording is a refusal as it is written, but for what differs between two requests
// that are refused for the same cause: the waits, the time, and whether the
// connection goes on. Once worded it may be shared. The zero value says nothing.
type Wording struct {
	status int
	last   bool   // the gate is leaving
	head   []byte // first line and fields
	waits  [2]int // where in head the wait in seconds stands, in order; 0 = nowhere
	body   []byte // up to the waits
}

// Word words a refusal by its document without waits and its fields, of which those
// that wait end where the wait is to stand.
func (w *Wording) Word(doc *labels.Document, fields []labels.Field) {
	w.status, w.last, w.waits = doc.Status, doc.Reason == labels.Draining, [2]int{}
	w.head = appendStatus(slices.Grow(w.head[:0], usual/2), doc.Status)
	gaps := w.waits[:0]
	for _, f := range fields {
		switch {
		case f.Name == "" || f.Name == "Connection": // of which not the cause alone says whether it goes on
		case f.Waits:
			w.head = appendField(w.head, f.Name, f.Value)
			gaps = append(gaps, len(w.head)-len("\r\n"))
		default:
			w.head = appendField(w.head, f.Name, f.Value)
		}
	}
	w.body = doc.AppendCause(slices.Grow(w.body[:0], usual))
}

// Status returns the status of the answer.
func (w *Wording) Status() int { return w.status }

// AppendDocument appends the body, with waits in milliseconds; 0 = none.
func (w *Wording) AppendDocument(b []byte, retryAfter, baseBackoff int64) []byte {
	return labels.AppendWaits(append(b, w.body...), retryAfter, baseBackoff)
}

// appendHead appends the first line and the fields.
func (w *Wording) appendHead(b []byte, wait int64) []byte {
	from := 0
	for _, at := range w.waits {
		if at > 0 {
			b = strconv.AppendInt(append(b, w.head[from:at]...), wait, 10)
			from = at
		}
	}
	return append(b, w.head[from:]...)
}

// IsPlain reports whether w is the answer to a plain request.
func IsPlain(w http.ResponseWriter) bool {
	_, ok := w.(*plain)
	return ok
}

// Refuse has a refusal be the whole answer to a plain request, with waits in
// milliseconds, 0 = none, and a field of its own, of which an empty value is left out.
func Refuse(answer http.ResponseWriter, w *Wording, retryAfter, baseBackoff int64, more labels.Field) {
	p, _ := answer.(*plain)
	var room [80]byte
	end := labels.AppendWaits(room[:0], retryAfter, baseBackoff)
	b := w.appendHead(p.out, labels.RetryAfterSeconds(retryAfter))
	if more.Value != "" {
		b = appendField(b, more.Name, more.Value)
	}
	b = appendField(append(b, "Content-Type: application/problem+json\r\n"...), "Date", h2.Date(p.came))
	b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(w.body)+len(end)), 10)
	if p.last = w.last || p.isLast(); p.last {
		b = append(b, "\r\nConnection: close"...)
	}
	b = append(b, "\r\n\r\n"...)
	if p.r.Method != http.MethodHead {
		b = append(append(b, w.body...), end...)
	}
	p.out, p.status, p.bare = b, w.status, true
}
