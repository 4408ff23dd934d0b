package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// idHeader carries the number that a request has in the ledger.
const idHeader = "X-Request-Number"

// behaviour answers a request after since the phase began, and returns the status.
// The ledger has been told that it arrived.
type behaviour func(w http.ResponseWriter, r *http.Request, since time.Duration, number int) int

// takes answers 200 after a time.
func takes(d time.Duration) behaviour { return answers(http.StatusOK, d) }

// answers does so with a status.
func answers(status int, d time.Duration) behaviour {
	return func(w http.ResponseWriter, _ *http.Request, _ time.Duration, _ int) int {
		time.Sleep(d)
		w.WriteHeader(status)
		return status
	}
}

// backend is an HTTP server that counts and times what it works on.
type backend struct {
	ledger  *ledger
	serve   behaviour
	began   time.Time
	address string
	server  *http.Server
}

// newBackend listens at once.
func newBackend(ctx context.Context, address string, l *ledger, serve behaviour) (*backend, error) {
	b := &backend{ledger: l, serve: serve, began: time.Now()}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	b.address = ln.Addr().String()
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
	go func() { _ = b.server.Serve(ln) }() // ends with the server
	return b, nil
}

// ServeHTTP implements http.Handler.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.Header.Get(idHeader))
	if err != nil {
		id = -1
	}
	now := time.Now()
	b.ledger.change(id, func(r *request) { r.arrived = now })
	_, _ = io.Copy(io.Discard, r.Body) // what did not come is the caller's affair
	read := time.Now()
	b.ledger.change(id, func(r *request) { r.read = read })
	w.Header().Set("X-Backend", "1")
	defer func() {
		now := time.Now()
		b.ledger.change(id, func(r *request) { r.done = now })
	}()
	status := b.serve(w, r, now.Sub(b.began), id)
	b.ledger.change(id, func(r *request) { r.answered = status })
}

func (b *backend) close() { _ = b.server.Close() }
