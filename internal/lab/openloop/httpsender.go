package openloop

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/lab/measure"
)

// An HTTPSender makes the requests of a load over HTTP, as the reference client
// does, and counts their attempts. It is safe for concurrent use.
type HTTPSender struct{ client *http.Client }

// NewHTTPSender returns a sender that retries as c says, over base.
func NewHTTPSender(c *client.Client, base http.RoundTripper) *HTTPSender {
	return &HTTPSender{client: &http.Client{Transport: c.Transport(&attemptCounter{next: base})}}
}

// Send makes one GET request, with its retries. A header that is not "" is sent
// with the given value.
func (s *HTTPSender) Send(ctx context.Context, url, header, value string) Sent {
	a := &attempts{}
	verdict := s.once(context.WithValue(ctx, attemptsKey{}, a), url, header, value)
	return Sent{Verdict: verdict, Attempts: a.n, Last: time.Since(a.last)}
}

// once makes the request and judges what came of it.
func (s *HTTPSender) once(ctx context.Context, url, header, value string) measure.Verdict {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return measure.Failed
	}
	if header != "" {
		req.Header.Set(header, value)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		// Whoever gave up after an answer was refused; a broken connection is no answer.
		if answer := (*client.StatusError)(nil); errors.As(err, &answer) && ctx.Err() == nil {
			return measure.Refused
		}
		return measure.Failed
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return measure.Failed
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return measure.Answered
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return measure.Refused
	default:
		return measure.Failed
	}
}

// attempts of one request.
type attempts struct {
	n    int
	last time.Time // when the last one began
}

// attemptsKey finds the attempts of one request.
type attemptsKey struct{}

// attemptCounter counts the attempts of each request.
type attemptCounter struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (a *attemptCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	if n, ok := r.Context().Value(attemptsKey{}).(*attempts); ok {
		n.n++
		n.last = time.Now()
	}
	return a.next.RoundTrip(r)
}
