package fastpath

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/admitd/admitd/internal/ingress/nowait"
)

// socket is a client's TCP connection that is read and written without telling
// the scheduler; see [nowait]. One goroutine may read while another writes.
type socket struct {
	net.Conn
	raw syscall.RawConn

	take func(fd uintptr) bool // takeOn; made once
	into []byte
	came int
	end  error // of reading

	mu   sync.Mutex            // guards the fields below, across the wait of a write
	put  func(fd uintptr) bool // putOn; made once
	out  []byte                // what is left to send
	lost error                 // of sending
}

// newSocket returns c as a socket, nil when it is none.
func newSocket(c net.Conn) *socket {
	sc, ok := c.(syscall.Conn)
	if !ok || !nowait.Can {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{Conn: c, raw: raw}
	s.take, s.put = s.takeOn, s.putOn
	return s
}

// Read implements net.Conn.
func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.into = p
	err := s.raw.Read(s.take)
	s.into = nil
	if err == nil {
		err = s.end
	}
	if err != nil {
		return 0, s.failed("read", err)
	}
	return s.came, nil
}

// takeOn reads what came and reports whether anything did.
func (s *socket) takeOn(fd uintptr) bool {
	s.came, s.end = nowait.Receive(fd, s.into)
	return s.came > 0 || s.end != nil
}

// Write implements net.Conn.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out, s.lost = p, nil
	err := s.raw.Write(s.put)
	if err == nil {
		err = s.lost
	}
	n := len(p) - len(s.out)
	s.out = nil
	if err != nil {
		return n, s.failed("write", err)
	}
	return n, nil
}

// putOn sends what there is room for and reports whether there is no more to do.
func (s *socket) putOn(fd uintptr) bool {
	for len(s.out) > 0 {
		n, err := nowait.Send(fd, s.out)
		if s.lost = err; err != nil {
			return true
		}
		if n == 0 {
			return false
		}
		s.out = s.out[n:]
	}
	return true
}

// failed says what went wrong as package net does, by which net/http tells a
// client that has gone from one that sends nonsense.
func (s *socket) failed(op string, err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	if told, ok := errors.AsType[*net.OpError](err); ok {
		err = told.Err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
}

// CloseWrite ends the stream to the client, where that is possible.
func (s *socket) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
