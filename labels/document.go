package labels

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// MaxDocument is the largest rejection document that [Parse] reads, in bytes.
const MaxDocument = 16 << 10

// ErrNotRejection is returned by [Parse] for bytes that are not a rejection
// document.
var ErrNotRejection = errors.New("labels: not a rejection document")

// Document is a rejection as it crosses the wire. Over HTTP it is an
// application/problem+json body (RFC 9457); other protocols carry the same
// facts in their own form.
type Document struct {
	Type          string   `json:"type"`
	Title         string   `json:"title"`
	Status        int      `json:"status"`
	Detail        string   `json:"detail"`
	OK            int      `json:"ok"` // always 0
	Code          int      `json:"code"`
	CodeName      string   `json:"codeName"`
	Errmsg        string   `json:"errmsg"`
	ErrorLabels   []string `json:"errorLabels"`
	Reason        Reason   `json:"reason"`
	Ingress       string   `json:"ingress"`
	Partition     string   `json:"partition"`
	Limit         Limit    `json:"limit,omitempty"`         // which limit refused; "" = not told
	Class         string   `json:"class,omitempty"`         // of the request; "" = the ingress has no classes
	RetryAfterMS  int64    `json:"retryAfterMS,omitempty"`  // milliseconds until a retry may succeed; 0 = unknown
	BaseBackoffMS int64    `json:"baseBackoffMS,omitempty"` // base of the client's exponential backoff, ms; 0 = client's own
}

// New returns the document for a refusal with the given reason, with every
// field that follows from the reason filled in.
func New(reason Reason, ingress, partition string) Document {
	return Document{
		Type: reason.ProblemType(), Title: reason.Title(), Status: reason.HTTPStatus(),
		Detail: reason.Message(), Code: Code, CodeName: CodeName, Errmsg: reason.Message(),
		ErrorLabels: reason.Labels(), Reason: reason, Ingress: ingress, Partition: partition,
	}
}

// HasLabel reports whether the document carries the error label.
func (d *Document) HasLabel(label string) bool { return slices.Contains(d.ErrorLabels, label) }

// RetryableOverload reports whether the document carries both labels, which is
// what allows a client to retry after backing off.
func (d *Document) RetryableOverload() bool {
	return d.HasLabel(SystemOverloaded) && d.HasLabel(Retryable)
}

// AppendJSON appends the document as JSON to b and returns the result. The key
// order is fixed. It allocates only when b must grow.
func (d *Document) AppendJSON(b []byte) []byte {
	return AppendWaits(d.AppendCause(b), d.RetryAfterMS, d.BaseBackoffMS)
}

// AppendCause appends the document up to its waits, which is the same for all
// requests that are refused for one cause. [AppendWaits] completes it.
func (d *Document) AppendCause(b []byte) []byte {
	b = appendString(append(b, `{"type":`...), d.Type)
	b = appendString(append(b, `,"title":`...), d.Title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(d.Status), 10)
	b = appendString(append(b, `,"detail":`...), d.Detail)
	b = strconv.AppendInt(append(b, `,"ok":`...), int64(d.OK), 10)
	b = strconv.AppendInt(append(b, `,"code":`...), int64(d.Code), 10)
	b = appendString(append(b, `,"codeName":`...), d.CodeName)
	b = appendString(append(b, `,"errmsg":`...), d.Errmsg)
	b = append(b, `,"errorLabels":[`...)
	for i, l := range d.ErrorLabels {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, l)
	}
	b = appendString(append(b, `],"reason":`...), string(d.Reason))
	b = appendString(append(b, `,"ingress":`...), d.Ingress)
	b = appendString(append(b, `,"partition":`...), d.Partition)
	if d.Limit != "" {
		b = appendString(append(b, `,"limit":`...), string(d.Limit))
	}
	if d.Class != "" {
		b = appendString(append(b, `,"class":`...), d.Class)
	}
	return b
}

// AppendWaits appends what stands behind [Document.AppendCause]: the waits in
// milliseconds, of which those of 0 are left out, and the end.
func AppendWaits(b []byte, retryAfterMS, baseBackoffMS int64) []byte {
	if retryAfterMS > 0 {
		b = strconv.AppendInt(append(b, `,"retryAfterMS":`...), retryAfterMS, 10)
	}
	if baseBackoffMS > 0 {
		b = strconv.AppendInt(append(b, `,"baseBackoffMS":`...), baseBackoffMS, 10)
	}
	return append(b, '}')
}

// Parse reads a rejection document. Unknown fields are ignored, so that newer
// gates can be read by older clients; code and codeName must match. Anything
// else, and anything above [MaxDocument], is [ErrNotRejection].
func Parse(b []byte) (Document, error) {
	if len(b) > MaxDocument {
		return Document{}, fmt.Errorf("%w: %d bytes, at most %d", ErrNotRejection, len(b), MaxDocument)
	}
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' {
		return Document{}, ErrNotRejection
	}
	var d Document
	if err := json.Unmarshal(b, &d); err != nil {
		return Document{}, fmt.Errorf("%w: %w", ErrNotRejection, err)
	}
	if d.Code != Code || d.CodeName != CodeName {
		return Document{}, fmt.Errorf("%w: code %d", ErrNotRejection, d.Code)
	}
	return d, nil
}

// appendString appends s as a JSON string. Plain ASCII, which is nearly all
// that appears in a rejection, is copied; the rest goes through encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil { // cannot happen: strings always marshal
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
