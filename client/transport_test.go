package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/labels"
)

// The rejection of a gate is retried whatever the method is, and waited for as
// long as the document says, which is finer than the Retry-After header.
func TestTransportRetriesOurRejections(t *testing.T) {
	for _, reason := range labels.Reasons() {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answers: []answer{rejection(reason, 137)}}
				c := newClient(t, client.Options{Policy: fixed(client.Driver(), 0)})
				resp, err := c.Transport(s).RoundTrip(request(t, method, "payload"))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				want, gaps := http.StatusOK, []time.Duration{137 * ms}
				if !reason.Retryable() {
					want, gaps = reason.HTTPStatus(), nil
				}
				if resp.StatusCode != want || s.open != 0 {
					t.Errorf("%s %s: status %d with %d bodies open; want %d and 0", method, reason, resp.StatusCode, s.open, want)
				}
				if diff := cmp.Diff(gaps, s.gaps()); diff != "" {
					t.Errorf("%s %s: waits (-want +got):\n%s", method, reason, diff)
				}
			})
		}
	}
}

// Which answers of other servers are retried for which requests. 429 says the
// request was turned away; 503 does not prove it, so only what may safely be
// repeated is. Nothing else is retried.
func TestTransportForeignServers(t *testing.T) {
	keyed := func(req *http.Request) { req.Header.Set("Idempotency-Key", "k") }
	read := func(req *http.Request) { *req = *req.WithContext(client.WithKind(req.Context(), client.Read)) }
	generic := func(req *http.Request) { *req = *req.WithContext(client.WithKind(req.Context(), client.Generic)) }
	for name, tc := range map[string]struct {
		method string
		change func(*http.Request)
		status int
		want   bool
	}{
		"GET 429":          {http.MethodGet, nil, 429, true},
		"POST 429":         {http.MethodPost, nil, 429, true},
		"generic 429":      {http.MethodPost, generic, 429, true},
		"GET 503":          {http.MethodGet, nil, 503, true},
		"HEAD 503":         {http.MethodHead, nil, 503, true},
		"PUT 503":          {http.MethodPut, nil, 503, true},
		"DELETE 503":       {http.MethodDelete, nil, 503, true},
		"POST 503":         {http.MethodPost, nil, 503, false},
		"PATCH 503":        {http.MethodPatch, nil, 503, false},
		"POST 503 keyed":   {http.MethodPost, keyed, 503, true},
		"POST 503 as read": {http.MethodPost, read, 503, true},
		"PUT 503 generic":  {http.MethodPut, generic, 503, false},
		"GET 500":          {http.MethodGet, nil, 500, false},
		"GET 502":          {http.MethodGet, nil, 502, false},
		"GET 504":          {http.MethodGet, nil, 504, false},
		"GET 404":          {http.MethodGet, nil, 404, false},
		"CONNECT 429":      {http.MethodConnect, nil, 429, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{answers: []answer{foreign(tc.status, "1")}}
			c := newClient(t, client.Options{Policy: fixed(client.Driver(), 0)})
			req := request(t, tc.method, "")
			if tc.change != nil {
				tc.change(req)
			}
			resp, err := c.Transport(s).RoundTrip(req)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			defer resp.Body.Close()
			if got := len(s.got) == 2; got != tc.want {
				t.Errorf("%s: retried %v; want %v", name, got, tc.want)
			}
			if tc.want && s.gaps()[0] != time.Second {
				t.Errorf("%s: waited %v; want the 1s of Retry-After", name, s.gaps()[0])
			}
			if !tc.want && resp.StatusCode != tc.status {
				t.Errorf("%s: status %d; want %d as answered", name, resp.StatusCode, tc.status)
			}
		})
	}
}

// Without Retry-After the client waits its own delay.
func TestTransportForeignWithoutHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []answer{foreign(503, ""), foreign(429, "soon")}}
		c := newClient(t, client.Options{Policy: fixed(client.Driver(), 1)})
		resp, err := c.Transport(s).RoundTrip(request(t, http.MethodGet, ""))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if diff := cmp.Diff([]time.Duration{200 * ms, 400 * ms}, s.gaps()); diff != "" {
			t.Errorf("waits (-want +got):\n%s", diff)
		}
	})
}

// Retry-After: 0 is no reason to return at once, and an hour is not waited for.
func TestTransportHintIsClamped(t *testing.T) {
	for hint, want := range map[string]time.Duration{
		"0": 200 * ms, "3": 3 * time.Second, "3600": 5200 * ms, "99999999999999999999": 200 * ms, "-3": 200 * ms,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{answers: []answer{foreign(429, hint)}}
			c := newClient(t, client.Options{Policy: fixed(client.Driver(), 1)})
			resp, err := c.Transport(s).RoundTrip(request(t, http.MethodGet, ""))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := s.gaps()[0]; got != want {
				t.Errorf("Retry-After: %s: waited %v; want %v", hint, got, want)
			}
		})
	}
}

// Seconds or an HTTP date; a date is read by the server's clock where it tells it.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for name, tc := range map[string]struct {
		value, date string
		want        time.Duration
		bad         bool
	}{
		"seconds":              {"120", "", 2 * time.Minute, false},
		"spaces":               {" 7 ", "", 7 * time.Second, false},
		"zero":                 {"0", "", 0, false},
		"date":                 {at(90 * time.Second), "", 90 * time.Second, false},
		"past":                 {at(-time.Hour), "", 0, false},
		"server's clock":       {at(time.Hour + 5*time.Second), at(time.Hour), 5 * time.Second, false},
		"server's clock wrong": {at(5 * time.Second), "yesterday", 5 * time.Second, false},
		"huge":                 {"9223372036854775807", "", 9223372036854 * ms, false},
		"beyond int64":         {"9223372036854775808", "", 0, true},
		"negative":             {"-1", "", 0, true},
		"absent":               {"", "", 0, true},
		"fraction":             {"1.5", "", 0, true},
		"words":                {"soon", "", 0, true},
	} {
		h := http.Header{"Retry-After": {tc.value}}
		if tc.date != "" {
			h.Set("Date", tc.date)
		}
		got, err := client.RetryAfter(h, now)
		if got != tc.want || (err != nil) != tc.bad || err != nil && !errors.Is(err, client.ErrRetryAfter) {
			t.Errorf("%s: RetryAfter(%q) = %v, %v; want %v, bad %v", name, tc.value, got, err, tc.want, tc.bad)
		}
	}
}

// The client announces itself and its patience, anew with each attempt, and
// leaves the caller's request alone.
func TestTransportAnnouncesBackpressureAndDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []answer{rejection(labels.RequestRate, 300)}}
		c := newClient(t, client.Options{Policy: fixed(client.Driver(), 0)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req := request(t, http.MethodGet, "").WithContext(ctx)
		resp, err := c.Transport(s).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		for i, want := range []string{"1000", "700"} {
			h := s.got[i].Header
			if h.Get("X-Admitd-Backpressure") != "1" || h.Get("X-Admitd-Deadline-Ms") != want {
				t.Errorf("attempt %d: headers %v; want the announcement and %s ms", i, h, want)
			}
		}
		if len(req.Header) != 0 {
			t.Errorf("the caller's request has headers now: %v", req.Header)
		}
	})
}

// A body is sent again from its beginning when there is GetBody, and never
// otherwise: then the caller gets the refusal at once.
func TestTransportReplaysOnlyWithGetBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []answer{rejection(labels.RequestRate, 0), rejection(labels.RequestRate, 0)}}
		c := newClient(t, client.Options{Policy: fixed(client.Driver(), 0)})
		req := request(t, http.MethodPost, "payload")
		req.Header.Set("Idempotency-Key", "one")
		resp, err := c.Transport(s).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if diff := cmp.Diff([]string{"payload", "payload", "payload"}, s.bodies); diff != "" {
			t.Errorf("bodies (-want +got):\n%s", diff)
		}
		if got := s.got[2].Header.Get("Idempotency-Key"); got != "one" {
			t.Errorf("the retry carries key %q; want the same", got)
		}

		s = &server{answers: []answer{rejection(labels.RequestRate, 0)}}
		req = request(t, http.MethodPost, "payload")
		req.GetBody = nil
		resp, err = c.Transport(s).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if len(s.got) != 1 || resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("stream: %d attempts, status %d; want 1 and 429", len(s.got), resp.StatusCode)
		}
	})
}

// When GetBody fails, its error is the caller's.
func TestTransportGetBodyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []answer{rejection(labels.RequestRate, 0)}}
		req := request(t, http.MethodPost, "payload")
		req.GetBody = func() (io.ReadCloser, error) { return nil, errBoom }
		resp, err := newClient(t, client.Options{}).Transport(s).RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		if !errors.Is(err, errBoom) || s.open != 0 {
			t.Errorf("RoundTrip = %v with %d bodies open; want %v and 0", err, s.open, errBoom)
		}
	})
}

// The last refusal is handed on whole: status, headers, and a body that reads
// from its beginning, whatever was read of it to decide.
func TestTransportHandsOnTheLastRefusal(t *testing.T) {
	long := strings.Repeat("x", labels.MaxDocument+5000)
	for name, last := range map[string]answer{
		"ours":         rejection(labels.ConcurrencyLimit, 5),
		"foreign":      foreign(503, "0"),
		"too long":     {status: 429, body: long, header: http.Header{"Content-Type": {"application/json"}}},
		"not json":     {status: 503, body: "{", header: http.Header{"Content-Type": {"application/problem+json; charset=utf-8"}}},
		"another code": {status: 429, body: `{"code":1}`, header: http.Header{"Content-Type": {"application/json"}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{answers: slices.Repeat([]answer{last}, 9)}
			resp, err := newClient(t, client.Options{}).Transport(s).RoundTrip(request(t, http.MethodGet, ""))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := io.ReadAll(resp.Body)
			if string(got) != last.body || err != nil {
				t.Errorf("%s: read %d bytes, %v; want all %d", name, len(got), err, len(last.body))
			}
			if resp.StatusCode != last.status || len(s.got) != 3 || s.open != 1 {
				t.Errorf("%s: status %d after %d attempts, %d bodies open; want %d, 3, 1",
					name, resp.StatusCode, len(s.got), s.open, last.status)
			}
			if resp.Body.Close(); s.open != 0 {
				t.Errorf("%s: Close did not reach the body", name)
			}
		})
	}
}

// An answer to HEAD has no document; the reason header stands for it.
func TestTransportReasonHeaderStandsForTheDocument(t *testing.T) {
	for _, reason := range labels.Reasons() {
		r := rejection(reason, 0)
		r.body = ""
		for _, method := range []string{http.MethodHead, http.MethodPost} {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answers: []answer{r}}
				resp, err := newClient(t, client.Options{}).Transport(s).RoundTrip(request(t, method, ""))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if got := len(s.got) == 2; got != reason.Retryable() {
					t.Errorf("%s %s: retried %v; want %v", method, reason, got, reason.Retryable())
				}
			})
		}
	}
}

// The labels of a document decide, not its status: a gate may answer 462.
func TestTransportReadsLabelsNotStatus(t *testing.T) {
	r := rejection(labels.RequestRate, 0)
	r.status = labels.Code
	one := rejection(labels.RequestRate, 0)
	one.body = strings.Replace(one.body, `,"RetryableError"`, "", 1)
	for name, tc := range map[string]struct {
		a    answer
		want int
	}{"462 with both labels": {r, 2}, "429 with one label": {one, 1}} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{answers: []answer{tc.a}}
			resp, err := newClient(t, client.Options{}).Transport(s).RoundTrip(request(t, http.MethodGet, ""))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if len(s.got) != tc.want {
				t.Errorf("%s: %d attempts; want %d", name, len(s.got), tc.want)
			}
		})
	}
}

// Which network errors are retried: a dial that failed sent nothing, so it is
// like a refusal; another error only when the request may be repeated; a wrong
// name or the caller's own end never.
func TestTransportNetworkErrors(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errBoom}
	dns := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Name: "gate", IsNotFound: true}}
	reset := &net.OpError{Op: "read", Net: "tcp", Err: errBoom}
	for name, tc := range map[string]struct {
		method string
		err    error
		want   []time.Duration
	}{
		"dial, POST":     {http.MethodPost, dial, []time.Duration{200 * ms}},
		"dns, GET":       {http.MethodGet, dns, nil},
		"reset, GET":     {http.MethodGet, reset, []time.Duration{0}},
		"reset, PUT":     {http.MethodPut, reset, []time.Duration{0}},
		"reset, POST":    {http.MethodPost, reset, nil},
		"timeout, GET":   {http.MethodGet, context.DeadlineExceeded, nil},
		"dial timeout":   {http.MethodPost, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}, []time.Duration{200 * ms}},
		"certificate":    {http.MethodGet, &tls.CertificateVerificationError{Err: errBoom}, nil},
		"cancelled, GET": {http.MethodGet, context.Canceled, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{answers: []answer{{err: tc.err}}}
			c := newClient(t, client.Options{Policy: fixed(client.Driver(), 1)})
			resp, err := c.Transport(s).RoundTrip(request(t, tc.method, ""))
			if err == nil {
				resp.Body.Close()
			} else if err != tc.err { //nolint:errorlint // the very same
				t.Errorf("%s: error is %v; want the base's own", name, err)
			}
			if diff := cmp.Diff(tc.want, s.gaps()); diff != "" {
				t.Errorf("%s: waits (-want +got):\n%s", name, diff)
			}
		})
	}
}

// A refusal of the last attempt does not hide that an earlier one may have
// written; for a read it may.
func TestTransportTellsWhatMayHaveWritten(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: errBoom}
	for method, hides := range map[string]bool{http.MethodPut: false, http.MethodGet: true} {
		for name, first := range map[string]answer{"reset": {err: reset}, "503": foreign(503, "")} {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answers: append([]answer{first}, slices.Repeat([]answer{rejection(labels.RequestRate, 0)}, 9)...)}
				resp, err := newClient(t, client.Options{}).Transport(s).RoundTrip(request(t, method, ""))
				if err == nil {
					resp.Body.Close()
				}
				if len(s.got) < 2 || (err == nil) != hides || s.open != 0 {
					t.Errorf("%s after %s: %v after %d attempts with %d bodies open; want a refusal: %v",
						method, name, err, len(s.got), s.open, hides)
				}
			})
		}
	}
}

// A deadline is not overslept: the refusal comes back at once when the hint
// leaves no time, and the cancellation when the caller gives up during a wait.
func TestTransportDeadlineAndCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, client.Options{Policy: fixed(client.Driver(), 0)})
		ctx, cancel := context.WithTimeout(t.Context(), 500*ms)
		defer cancel()
		start := time.Now()
		s := &server{answers: []answer{rejection(labels.RequestRate, 700)}}
		resp, err := c.Transport(s).RoundTrip(request(t, http.MethodGet, "").WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := time.Since(start); resp.StatusCode != http.StatusTooManyRequests || got != 0 {
			t.Errorf("status %d after %v; want 429 at once", resp.StatusCode, got)
		}

		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(100*ms, stop)
		s = &server{answers: []answer{rejection(labels.RequestRate, 700)}}
		resp, err = c.Transport(s).RoundTrip(request(t, http.MethodGet, "").WithContext(ctx))
		if err == nil {
			resp.Body.Close()
		}
		if got := time.Since(start); !errors.Is(err, context.Canceled) || got != 100*ms || s.open != 0 {
			t.Errorf("RoundTrip = %v after %v with %d bodies open; want %v after 100ms", err, got, s.open, context.Canceled)
		}
	})
}

// The request's body is closed even when nothing was sent.
func TestTransportClosesTheBodyOfAnEndedRequest(t *testing.T) {
	open := 1
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := request(t, http.MethodPost, "x").WithContext(ctx)
	req.Body = &closeCounter{Reader: req.Body, open: &open}
	resp, err := newClient(t, client.Options{}).Transport(&server{}).RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, context.Canceled) || open != 0 {
		t.Errorf("RoundTrip = %v with %d bodies open; want %v and 0", err, open, context.Canceled)
	}
}
