package decide

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/admitd/admitd/labels"
)

// problem is the body of every answer that is an error (RFC 9457), but for
// refusals, which have a document of their own.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Problems []string `json:"problems,omitempty"` // every one
}

// fail answers with a problem.
func fail(w http.ResponseWriter, status int, detail string, problems ...string) {
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, status, problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Problems: problems})
}

// fail answers with what err means.
func (s *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, ErrUnknownIngress):
		fail(w, http.StatusNotFound, "no such ingress")
	case r.Context().Err() != nil: // the client went away
		fail(w, http.StatusServiceUnavailable, "the request was cancelled")
	default:
		s.log.ErrorContext(r.Context(), "decision failed", slog.String("path", r.URL.Path), slog.Any("error", err))
		fail(w, http.StatusInternalServerError, err.Error())
	}
}

// refuse answers with what the gate, or the way to it, said.
func (s *api) refuse(w http.ResponseWriter, r *http.Request, a *Ask, err error) {
	doc, form, ok := s.desk.Refusal(a, err)
	if !ok {
		s.fail(w, r, err)
		return
	}
	doc.SetHeaders(w.Header(), form)
	writeDocument(w, doc.Status, &doc)
}

// writeDocument writes a refusal whose headers are set.
func writeDocument(w http.ResponseWriter, status int, doc *labels.Document) {
	w.WriteHeader(status)
	_, _ = w.Write(append(doc.AppendJSON(nil), '\n')) //nolint:gosec // JSON, and said to be; a client that went away is nothing to do about
}

// answer answers with JSON.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, status, v)
}

func write(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot write the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client went away: nothing to do
}

// read decodes one JSON object from the body, strictly. On failure it has
// answered and returns false.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, extra := d.Token(); !errors.Is(extra, io.EOF) {
			err = errors.New("more than one JSON value")
		}
	}
	if err == nil {
		return true
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
	} else {
		fail(w, http.StatusBadRequest, "the body does not hold: "+err.Error())
	}
	return false
}

// extend moves the deadline for writing the answer. A writer that has no
// deadlines, as in tests, needs none.
func extend(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}
