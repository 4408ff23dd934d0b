package h2

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"time"

	"github.com/admitd/admitd/labels"
)

// usual is room for the document of a refusal, in bytes.
const usual = 640

// Wording is a refusal as it is sent, but for what differs between two requests that
// are refused for the same cause: the waits and the time. Once worded it may be
// shared, by sessions too: it refers to nothing that a client remembers. The zero
// value says nothing.
type Wording struct {
	status int
	last   bool            // the gate is leaving
	head   []byte          // fields, encoded
	waits  [2]labels.Field // those that end with the wait in seconds
	body   []byte          // up to the waits
}

// Word words a refusal by its document without waits and its fields, of which those
// that wait end where the wait is to stand.
func (w *Wording) Word(doc *labels.Document, fields []labels.Field) {
	w.status, w.last, w.waits = doc.Status, doc.Reason == labels.Draining, [2]labels.Field{}
	w.head = appendField(slices.Grow(w.head[:0], usual/2), ":status", strconv.Itoa(doc.Status))
	w.head = appendField(w.head, "Content-Type", "application/problem+json")
	waits := w.waits[:0]
	for _, f := range fields {
		f.Name = textproto.CanonicalMIMEHeaderKey(f.Name)
		switch {
		case f.Name == "" || isConnection(f.Name):
		case f.Waits:
			waits = append(waits, f)
		default:
			w.head = appendField(w.head, f.Name, f.Value)
		}
	}
	w.body = doc.AppendCause(slices.Grow(w.body[:0], usual))
}

// Refuse has a refusal be the whole answer to a request without a body, with waits in
// milliseconds, 0 = none, and a field of its own, of which an empty value is left
// out. It reports false when answer is none to such a request.
func Refuse(answer http.ResponseWriter, w *Wording, retryAfter, baseBackoff int64, more labels.Field) bool {
	st, ok := answer.(*stream)
	if !ok || st.r.Body != http.NoBody || st.status != 0 {
		return false
	}
	doc := labels.AppendWaits(append(st.document[:0], w.body...), retryAfter, baseBackoff)
	b := append(st.head[:0], w.head...)
	var room [80]byte
	for i := range w.waits {
		if f := &w.waits[i]; f.Name != "" {
			value := strconv.AppendInt(append(room[:0], f.Value...), labels.RetryAfterSeconds(retryAfter), 10)
			b = appendField(b, f.Name, string(value))
		}
	}
	if more.Value != "" {
		b = appendField(b, more.Name, more.Value)
	}
	b = appendField(b, "Date", Date(time.Now()))
	b = appendField(b, "Content-Length", string(strconv.AppendInt(room[:0], int64(len(doc)), 10)))
	st.head, st.document, st.status, st.left, st.last = b, doc, w.status, int64(len(doc)), w.last
	if st.bare = st.r.Method == http.MethodHead; st.bare {
		st.document, st.left = doc[:0], -1
	}
	return true
}

// sayRefusalLocked sends a refusal whole, for which there is room.
func (o *frameOutput) sayRefusalLocked(st *stream) {
	st.sayHeadLocked(len(st.document) == 0)
	if len(st.document) > 0 {
		o.appendDataLocked(st.id, st.document, true)
	}
}
