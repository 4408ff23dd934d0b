package client_test

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/client"
)

// dripping is a body that never ends and never comes, until it is closed.
type dripping struct {
	closed chan struct{}
	once   sync.Once
}

func (d *dripping) Read([]byte) (int, error) { <-d.closed; return 0, io.ErrUnexpectedEOF }
func (d *dripping) Close() error             { d.once.Do(func() { close(d.closed) }); return nil }

// drippingServer refuses with such a body, and then answers.
type drippingServer struct{ calls int }

func (s *drippingServer) RoundTrip(*http.Request) (*http.Response, error) {
	s.calls++
	if s.calls > 1 {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
	}
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, Header: http.Header{}, ContentLength: -1,
		Body: &dripping{closed: make(chan struct{})},
	}, nil
}

// A server that drips the body of its refusal holds a retry up for seconds, not
// for ever.
func TestDrippingRefusalDoesNotHoldTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := client.Seed()
		policy.Rand = func() float64 { return 0 }
		c, err := client.New(client.Options{Policy: &policy})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://h/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		resp, err := c.Transport(&drippingServer{}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if took := time.Since(start); resp.StatusCode != http.StatusOK || took != 10*time.Second {
			t.Errorf("status %d after %v; want 200 after exactly the 10s that a refusal's body may take", resp.StatusCode, took)
		}
	})
}
