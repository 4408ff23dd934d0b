package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/labels"
)

// Over a real connection: refusals, ours and others', leave it usable, so all
// attempts and the next request go over one; and http.Client.Timeout counts as
// the deadline.
func TestTransportReusesTheConnection(t *testing.T) {
	var connections, requests atomic.Int32
	ours := rejection(labels.ConcurrencyLimit, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch requests.Add(1) % 3 {
		case 1:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(ours.status)
			_, _ = io.WriteString(w, ours.body)
		case 2:
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, strings.Repeat("busy ", 8000)) // longer than a document may be
		default:
			_, _ = io.Copy(w, r.Body)
		}
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	c := newClient(t, client.Options{Policy: fixed(client.Driver(), 0)})
	transport := c.Transport(srv.Client().Transport)
	defer transport.CloseIdleConnections()
	hc := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader("payload"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || string(body) != "payload" || err != nil {
			t.Fatalf("status %d, body %q, %v; want 200 and the payload", resp.StatusCode, body, err)
		}
	}
	if connections.Load() != 1 || requests.Load() != 9 {
		t.Errorf("%d connections for %d requests; want 1 for 9", connections.Load(), requests.Load())
	}
}

// http.Client.Timeout bounds the waits, and url.Error knows it as a timeout.
func TestTransportUnderClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: slices.Repeat([]answer{foreign(503, "2")}, 9)}
		c := newClient(t, client.Options{Policy: fixed(client.Driver(), 0)})
		hc := &http.Client{Transport: c.Transport(s), Timeout: 3 * time.Second}
		start := time.Now()
		resp, err := hc.Do(request(t, http.MethodGet, ""))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := time.Since(start); got != 2*time.Second || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("status %d after %v; want 503 after 2s: a second wait would end late", resp.StatusCode, got)
		}
		slow := client.Error{Err: &url.Error{Err: context.DeadlineExceeded}}
		if !slow.Timeout() {
			t.Error("a timeout within an Error is not one any more")
		}
	})
}

// A base that selects servers learns which to avoid, and says which it took.
func TestTransportLetsTheBaseSelectServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := []string{"a:1", "a:1", "b:2"}
		var avoided [][]string
		s := &server{answers: []answer{rejection(labels.Draining, 0), rejection(labels.Draining, 0)}}
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			a := client.AttemptOf(req.Context())
			avoided = append(avoided, slices.Clone(a.Deprioritized(false)))
			a.Server = servers[a.Number()]
			return s.RoundTrip(req)
		})
		p := client.Seed()
		resp, err := newClient(t, client.Options{Policy: &p}).Transport(base).RoundTrip(request(t, http.MethodGet, ""))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if diff := cmp.Diff([][]string{nil, {"a:1"}, {"a:1"}}, avoided); diff != "" {
			t.Errorf("avoided (-want +got):\n%s", diff)
		}
		if client.AttemptOf(t.Context()) != nil {
			t.Error("there is an attempt outside of one")
		}
	})
}

// endless is a body without an end.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

func (e *endless) Close() error { return nil }

// A refusal is read to a bound, whatever it claims to be.
func TestTransportReadsBoundedBodies(t *testing.T) {
	body := &endless{}
	resp, err := newClient(t, client.Options{}).Transport(roundTripper(func(*http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/problem+json"}}
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: h, Body: body, ContentLength: -1}, nil
	})).RoundTrip(request(t, http.MethodPost, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body.read > labels.MaxDocument+1 {
		t.Errorf("read %d bytes to decide; want at most %d", body.read, labels.MaxDocument+1)
	}
}

// A refusal whose body breaks off shows the caller the same bytes and error.
func TestTransportHandsOnBrokenBodies(t *testing.T) {
	resp, err := newClient(t, client.Options{}).Transport(roundTripper(func(*http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/problem+json"}}
		body := io.NopCloser(io.MultiReader(strings.NewReader(`{"code":`), iotest.ErrReader(errBoom)))
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: h, Body: body, ContentLength: -1}, nil
	})).RoundTrip(request(t, http.MethodPost, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); string(got) != `{"code":` || !errors.Is(err, errBoom) {
		t.Errorf("read %q, %v; want what was sent and %v", got, err, errBoom)
	}
}
