package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/admitd/admitd/labels"
)

// ResponseFailure reads a response: nil when the server did the work or refused
// it for reasons of its own, else what the refusal allows.
//
//   - A rejection document says so itself; its labels count and nothing else.
//   - Without a readable document, as in answers to HEAD, X-Admitd-Reason stands
//     for the labels of that reason.
//   - 429 from any other server counts as both labels: the request was counted
//     and turned away.
//   - 503 from any other server counts as an overload. It does not prove that no
//     work ran, because a proxy answers it also when the connection broke half-way;
//     so it is retried only when the request is idempotent.
//   - Other 5xx are failures that are neither an overload nor retryable.
//
// It may read up to [labels.MaxDocument] bytes of the body, and leaves resp.Body
// as if it had not.
func ResponseFailure(resp *http.Response) *Failure { return responseFailure(resp, resp.Request) }

// responseFailure is [ResponseFailure] for a response to req, which may be nil.
func responseFailure(resp *http.Response, req *http.Request) *Failure {
	if resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	status := &StatusError{Code: resp.StatusCode, Status: resp.Status}
	if f := gateFailure(resp, status); f != nil {
		return f
	}
	hint, _ := RetryAfter(resp.Header, time.Now())
	f := &Failure{Err: status, Reason: "http_" + strconv.Itoa(resp.StatusCode), RetryAfter: hint}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		f.Overload, f.Retryable = true, true
	case resp.StatusCode == http.StatusServiceUnavailable:
		f.Overload = true
		f.Transient = req != nil && idempotent(req)
	case resp.StatusCode < http.StatusInternalServerError:
		return nil
	}
	return f
}

// StatusError is the cause in the failure of an HTTP response.
type StatusError struct {
	Code   int    // HTTP status code
	Status string // as in http.Response
}

// Error returns the status.
func (e *StatusError) Error() string { return "client: server answered " + e.Status }

// gateFailure reads the rejection of one of our gates, or returns nil when the
// response is not one.
func gateFailure(resp *http.Response, cause error) *Failure {
	if doc, ok := readDocument(resp); ok {
		f := FromDocument(&doc, fmt.Errorf("%w: %s", cause, doc.Errmsg))
		if f.RetryAfter == 0 {
			f.RetryAfter, _ = RetryAfter(resp.Header, time.Now())
		}
		return f
	}
	reason := labels.Reason(resp.Header.Get(labels.HeaderReason))
	if reason.Index() < 0 {
		return nil
	}
	hint, _ := RetryAfter(resp.Header, time.Now())
	return &Failure{
		Err: fmt.Errorf("%w: %s", cause, reason.Message()), Reason: string(reason),
		Overload: true, Retryable: reason.Retryable(), RetryAfter: hint,
	}
}

// documentPatience is how long the body of a refusal may take, which is small.
const documentPatience = 10 * time.Second

// readDocument reads the rejection document in a response, if it is one. The
// body can be read again from its beginning. Reading ahead also lets a refused
// request's connection serve others while this one waits.
func readDocument(resp *http.Response) (labels.Document, bool) {
	if !mayBeRejection(resp) {
		return labels.Document{}, false
	}
	original := resp.Body
	slow := time.AfterFunc(documentPatience, func() { _ = original.Close() })
	head, err := io.ReadAll(io.LimitReader(resp.Body, labels.MaxDocument+1))
	slow.Stop()
	resp.Body = &rereadBody{Reader: rest(head, resp.Body, err), body: resp.Body}
	media, _, mediaErr := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || mediaErr != nil || media != "application/problem+json" && media != "application/json" {
		return labels.Document{}, false
	}
	doc, err := labels.Parse(head)
	return doc, err == nil
}

// mayBeRejection reports whether the body of a response is worth reading.
func mayBeRejection(resp *http.Response) bool {
	if resp.Body == nil || resp.Body == http.NoBody || resp.ContentLength > labels.MaxDocument {
		return false
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, labels.Code:
		return true
	}
	return resp.Header.Get(labels.HeaderReason) != ""
}

// rereadBody is a body of which a part was read already.
type rereadBody struct {
	io.Reader
	body io.Closer
}

// Close closes the underlying body.
func (b *rereadBody) Close() error { return b.body.Close() }

// rest returns what reading body from the beginning would give, when head was
// read from it and ended with err.
func rest(head []byte, body io.Reader, err error) io.Reader {
	if err != nil {
		return io.MultiReader(bytes.NewReader(head), failingReader{err})
	}
	return io.MultiReader(bytes.NewReader(head), body)
}

// failingReader fails every read with the same error.
type failingReader struct{ err error }

// Read implements io.Reader.
func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// ErrRetryAfter is returned by [RetryAfter] for a header that is absent or
// neither a number of seconds nor an HTTP date.
var ErrRetryAfter = errors.New("client: no usable Retry-After")

// RetryAfter reads the Retry-After header: whole seconds, or an HTTP date. A
// date is compared with the response's own Date when it has one, so that the two
// clocks need not agree, else with now. The result is >= 0.
func RetryAfter(h http.Header, now time.Time) (time.Duration, error) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil && seconds >= 0 {
		return milliseconds(min(seconds, 1<<50) * 1000), nil
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, ErrRetryAfter
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(at.Sub(now), 0), nil
}
