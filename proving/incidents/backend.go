package main

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// service is how long the backend takes of a request in calm.
const service = 20 * time.Millisecond

// backend answers HTTP as it is told to.
type backend struct {
	address string
	answer  atomic.Pointer[http.HandlerFunc]

	mu     sync.Mutex // guards the fields below
	server *http.Server
}

func newBackend() (b *backend, err error) {
	b = &backend{}
	b.does(takes(service))
	for range 5 { // somebody else may be faster
		b.address = freePort()
		if err = b.open(); err == nil {
			return b, nil
		}
	}
	return nil, err
}

// does says how requests are answered from now on.
func (b *backend) does(h http.HandlerFunc) { b.answer.Store(&h) }

// open listens.
func (b *backend) open() error {
	ln, err := net.Listen("tcp", b.address)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*b.answer.Load())(w, r) })}
	go func(s *http.Server) { _ = s.Serve(ln) }(b.server)
	return nil
}

// close ends it, connections included.
func (b *backend) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.server.Close()
}

// takes answers after a time.
func takes(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(d)
		_, _ = w.Write([]byte("served"))
	}
}

// queues answers with so many workers, each of which takes a time.
func queues(workers int, d time.Duration) http.HandlerFunc {
	room := make(chan struct{}, workers)
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		case <-r.Context().Done():
			return
		}
		time.Sleep(d)
		_, _ = w.Write([]byte("served"))
	}
}

// says answers one of so many requests with a status at once, and the others as in calm.
func says(status, oneOf int) http.HandlerFunc {
	var n atomic.Int64
	well := takes(service)
	return func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%int64(oneOf) == 0 {
			w.WriteHeader(status)
			return
		}
		well(w, r)
	}
}

// closes takes three of four requests and closes the connection: what is asked once more on
// another connection mostly fails too.
func closes() http.HandlerFunc {
	var n atomic.Int64
	well := takes(service)
	return func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%4 > 0 {
			if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = c.Close()
			}
			return
		}
		well(w, r)
	}
}

// hangs answers nobody.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
