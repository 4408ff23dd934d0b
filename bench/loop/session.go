//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"syscall"

	"github.com/admitd/admitd/internal/ingress/nowait"
	"github.com/admitd/admitd/limiter"
)

// session is one client and its backend.
type session struct {
	permit limiter.Permit
	held   bool
}

// end is one end of a session.
type end struct {
	*session
	fd, peer int
	client   bool
	rest     []byte // of a message that is cut; nil = none
}

// accept accepts what is there, and connects each to the backend.
func (l *loop) accept() {
	for {
		fd, _, err := syscall.Accept4(l.listen, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		back, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		check(err)
		check(syscall.Connect(back, address(l.backend))) // blocks: an experiment may
		check(syscall.SetNonblock(back, true))
		s := &session{}
		for _, e := range []*end{{session: s, fd: fd, peer: back, client: true}, {session: s, fd: back, peer: fd}} {
			_ = syscall.SetsockoptInt(e.fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
			l.ends[int32(e.fd)] = e
			check(l.watch(e.fd, syscall.EPOLLRDHUP))
		}
	}
}

// move reads once and passes on what is whole. false = the session is over.
func (l *loop) move(e *end) bool {
	n := copy(l.buf, e.rest)
	e.rest = nil
	got, err := nowait.Receive(uintptr(e.fd), l.buf[n:])
	if err != nil {
		return false
	}
	b, whole := l.buf[:n+got], 0
	for len(b)-whole >= 16 {
		size := int(binary.LittleEndian.Uint32(b[whole:]))
		if size < 16 || size > len(l.buf) {
			return false
		}
		if len(b)-whole < size {
			break
		}
		if !l.decide(e, b[whole:whole+size]) {
			return false
		}
		whole += size
	}
	if whole < len(b) {
		e.rest = bytes.Clone(b[whole:])
	}
	for sent := 0; sent < whole; {
		n, err := nowait.Send(uintptr(e.peer), b[sent:whole])
		if err != nil || n == 0 { // no queue for what is not read: an experiment's messages are small
			return false
		}
		sent += n
	}
	return true
}

// decide asks the limiter about a message of the client, and ends the permit
// with one of the backend.
func (l *loop) decide(e *end, m []byte) bool {
	if !e.client {
		if e.held {
			e.held = false
			outcome := limiter.Success
			if bytes.Contains(m, []byte("errmsg")) {
				outcome = limiter.Dropped
			}
			e.permit.End(outcome)
		}
		return true
	}
	name, db := command(m)
	if string(name) == "hello" {
		return true
	}
	p, err := l.gate.TryAdmit(l.gate.Now(), limiter.Request{Key: db})
	e.permit, e.held = p, err == nil
	return err == nil // refusals end it: the comparison has none
}

// command returns the name and the database of an OP_MSG.
func command(m []byte) (name []byte, db string) {
	for b := m[min(25, len(m)):]; len(b) > 2 && b[0] != 0; {
		kind := b[0]
		key, rest, ok := bytes.Cut(b[1:], []byte{0})
		if !ok || len(rest) < 4 {
			return name, db
		}
		if name == nil {
			name = key
		}
		size := int(binary.LittleEndian.Uint32(rest))
		switch kind {
		case 0x02:
			size += 4
			if string(key) == "$db" && size <= len(rest) && size > 5 {
				db = string(rest[4 : size-1])
			}
		case 0x10:
			size = 4
		case 0x01, 0x12:
			size = 8
		}
		if size <= 0 || size > len(rest) {
			return name, db
		}
		b = rest[size:]
	}
	return name, db
}

// close ends a session.
func (l *loop) close(e *end) {
	if e.held {
		e.held = false
		e.permit.End(limiter.Ignored)
	}
	delete(l.ends, int32(e.fd))
	delete(l.ends, int32(e.peer))
	_ = syscall.Close(e.fd)
	_ = syscall.Close(e.peer)
}
