package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// behaviour is what a bad backend does with a connection that has sent a
// request.
type behaviour func(c net.Conn)

// backends are a good server and one that behaves as it is told.
type backends struct {
	good, bad string // addresses
	manner    atomic.Pointer[behaviour]
	lns       []net.Listener
}

// startBackend starts both.
func startBackend(ctx context.Context) (*backends, error) {
	b := &backends{}
	for range 2 {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		b.lns = append(b.lns, ln)
	}
	b.good, b.bad = b.lns[0].Addr().String(), b.lns[1].Addr().String()
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }),
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = server.Serve(b.lns[0]) }() // ends with the listener
	go b.serveBad(b.lns[1])
	return b, nil
}

// be sets the behaviour; nil = as a good one.
func (b *backends) be(m behaviour) {
	if m == nil {
		m = good
	}
	b.manner.Store(&m)
}

// stop closes both.
func (b *backends) stop() {
	for _, ln := range b.lns {
		_ = ln.Close()
	}
}

// serveBad hands every connection to the behaviour.
func (b *backends) serveBad(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			(*b.manner.Load())(c)
		}()
	}
}

// good answers every request at once.
func good(c net.Conn) {
	r := bufio.NewReaderSize(c, 64<<10)
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(bytes.TrimSpace(line)) > 0 {
			continue
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// hangs reads and never answers.
func hangs(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// dies reads a little and closes.
func dies(c net.Conn) { _, _ = c.Read(make([]byte, 64)) }

// garbage answers with what is not HTTP, without end.
func garbage(c net.Conn) {
	_, _ = c.Read(make([]byte, 64))
	junk := bytes.Repeat([]byte{0, 0xff, 'x', '\n'}, 1<<14)
	for {
		if _, err := c.Write(junk); err != nil {
			return
		}
	}
}

// endless answers with header fields without end.
func endless(c net.Conn) {
	_, _ = c.Read(make([]byte, 64))
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
	field := []byte("X-Field: " + strings.Repeat("a", 4<<10) + "\r\n")
	for {
		if _, err := c.Write(field); err != nil {
			return
		}
	}
}
