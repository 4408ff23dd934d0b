package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// backend answers at once, except for requests to /hold, which it holds until
// they are released.
type backend struct {
	*httptest.Server

	holding   atomic.Int64
	completed atomic.Int64 // requests answered in full
	release   func()       // lets all go that are held, and all to come
}

// startBackend serves until the test is over.
func startBackend(t *testing.T) *backend {
	t.Helper()
	b, gone := &backend{}, make(chan struct{})
	b.release = sync.OnceFunc(func() { close(gone) })
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			b.holding.Add(1)
			<-gone
			b.holding.Add(-1)
		}
		if _, err := io.WriteString(w, "served"); err == nil {
			b.completed.Add(1)
		}
	}))
	t.Cleanup(b.Close)
	t.Cleanup(b.release)
	return b
}

// held is a request that the backend holds.
type held struct{ answer chan *answer }

// hold sends a request that the backend keeps, and waits until it has it.
func (b *backend) hold(t *testing.T, url string) held {
	t.Helper()
	h, before := held{make(chan *answer, 1)}, b.holding.Load()
	go func() {
		defer close(h.answer)
		if a, err := get(url + "/hold"); err == nil {
			h.answer <- a
		}
	}()
	waitFor(t, "the backend to have the request", func() bool { return b.holding.Load() > before })
	return h
}

// served fails the test unless the request was answered in full.
func (h held) served(t *testing.T) {
	t.Helper()
	if a := <-h.answer; a == nil || a.status != http.StatusOK || string(a.body) != "served" {
		t.Errorf("the request that was in flight got %+v; want it served", a)
	}
}
