package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/labels"
)

// answer is one response, or error, of a fake server.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

// server is a RoundTripper that gives its answers in turn, and 200 after them.
// It keeps the requests it got, with their bodies.
type server struct {
	answers []answer
	got     []*http.Request
	bodies  []string
	at      []time.Time
	open    int // response bodies not closed yet
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.at = append(s.at, time.Now())
	s.got = append(s.got, req)
	body := ""
	if req.Body != nil {
		b, _ := io.ReadAll(req.Body)
		req.Body.Close()
		body = string(b)
	}
	s.bodies = append(s.bodies, body)
	a := answer{status: http.StatusOK, body: "done"}
	if n := len(s.got); n <= len(s.answers) {
		a = s.answers[n-1]
	}
	if a.err != nil {
		return nil, a.err
	}
	s.open++
	if a.header == nil {
		a.header = http.Header{}
	}
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Header: a.header, Request: req, ContentLength: -1,
		Body: &closeCounter{Reader: strings.NewReader(a.body), open: &s.open},
	}, nil
}

func (s *server) gaps() []time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(s.at); i++ {
		gaps = append(gaps, s.at[i].Sub(s.at[i-1]))
	}
	return gaps
}

type closeCounter struct {
	io.Reader
	open *int
	done bool
}

func (c *closeCounter) Close() error {
	if !c.done {
		c.done = true
		*c.open--
	}
	return nil
}

// rejection is what a gate answers.
func rejection(reason labels.Reason, retryAfterMS int64) answer {
	doc := labels.New(reason, "orders", "checkout")
	doc.RetryAfterMS = retryAfterMS
	return answer{
		status: reason.HTTPStatus(), body: string(doc.AppendJSON(nil)),
		header: http.Header{
			"Content-Type": {"application/problem+json"}, labels.HeaderReason: {string(reason)}, "Retry-After": {"1"},
		},
	}
}

// foreign is what a server that is not ours answers.
func foreign(status int, retryAfter string) answer {
	h := http.Header{"Content-Type": {"text/html"}}
	if retryAfter != "" {
		h.Set("Retry-After", retryAfter)
	}
	return answer{status: status, header: h, body: "<h1>busy</h1>"}
}

func request(tb testing.TB, method, body string) *http.Request {
	tb.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(tb.Context(), method, "http://gate:8462/orders", r)
	if err != nil {
		tb.Fatal(err)
	}
	return req
}
