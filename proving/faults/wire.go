package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// fault is what the wire between the gate and its backend does.
type fault int32

const (
	none    fault = iota
	silent        // nothing comes through, and nobody is told: SIGSTOP, or packets that are dropped
	slow          // each piece of the backend's takes 200 ms
	resets        // connections are reset at their first byte
	garbage       // the backend's bytes are random
)

// wire is a proxy between the gate and a backend that can be made to fail.
type wire struct {
	address, backend string
	mode             atomic.Int32
	mu               sync.Mutex // guards the fields below
	ln               net.Listener
	conns            map[net.Conn]struct{}
}

func newWire(backend string) (*wire, error) {
	w := &wire{backend: backend, conns: map[net.Conn]struct{}{}}
	return w, w.listen("127.0.0.1:0")
}

func (w *wire) listen(address string) error {
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.ln, w.address = ln, ln.Addr().String()
	w.mu.Unlock()
	go w.accept(ln)
	return nil
}

func (w *wire) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go w.pass(c)
	}
}

// kill closes the listener and all connections; revive listens again.
func (w *wire) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.ln.Close()
	for c := range w.conns {
		_ = c.Close()
	}
}

func (w *wire) revive() error { return w.listen(w.address) }

// pause holds everything up for 300 ms.
func (w *wire) pause() {
	w.mode.Store(int32(silent))
	time.Sleep(300 * time.Millisecond)
	w.mode.Store(int32(none))
}

func (w *wire) pass(client net.Conn) {
	defer client.Close()
	if fault(w.mode.Load()) == resets {
		_, _ = client.Read(make([]byte, 1))
		if tcp, ok := client.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return
	}
	backend, err := new(net.Dialer).DialContext(context.Background(), "tcp", w.backend)
	if err != nil {
		return
	}
	defer backend.Close()
	w.mu.Lock()
	w.conns[client] = struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.conns, client)
		w.mu.Unlock()
	}()
	go func() {
		w.pump(backend, client, false)
		_ = backend.Close()
	}()
	w.pump(client, backend, true)
}

// pump copies, as the mode of the moment says.
func (w *wire) pump(dst, src net.Conn, answers bool) {
	b := make([]byte, 16<<10)
	for {
		n, err := src.Read(b)
		for fault(w.mode.Load()) == silent {
			time.Sleep(20 * time.Millisecond)
		}
		if answers {
			w.spoil(b[:n])
		}
		if _, failed := dst.Write(b[:n]); failed != nil {
			return
		}
		if err != nil {
			if tcp, ok := dst.(*net.TCPConn); ok && errors.Is(err, io.EOF) && !answers {
				_ = tcp.CloseWrite()
			}
			return
		}
	}
}

// spoil does to a piece of the backend's what the mode says.
func (w *wire) spoil(b []byte) {
	switch fault(w.mode.Load()) {
	case slow:
		time.Sleep(200 * time.Millisecond)
	case garbage:
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
	case none, silent, resets:
	}
}
