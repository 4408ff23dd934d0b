// Package modelpostgres is a model of a PostgreSQL server of known capacity, and a
// client, for the demo. It speaks as much of the protocol as simple queries need:
// every query takes a worker for the service time and returns no rows.
package modelpostgres

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/admitd/admitd/internal/modelwork"
)

// maxMessage bounds what either end reads, in bytes.
const maxMessage = 1 << 20

// Codes that stand where a first message has its version.
const (
	codeVersion = 3 << 16
	codeTLS     = 80877103
	codeGSS     = 80877104
)

// Server is the model backend. It is safe for concurrent use.
type Server struct {
	workers *modelwork.Workers             // nil = work is somebody else's
	work    func(ctx context.Context) bool // false = the connection is dropped
}

// New returns a server on which at most workers queries run at a time, each for
// the service time, so that its capacity is workers / service time queries per
// second; the others wait in no particular order.
func New(workers int, service time.Duration) *Server {
	w := modelwork.New(workers, service)
	return &Server{workers: w, work: w.Work}
}

// NewFor returns a server whose queries are answered when work returns true; its
// connection is dropped when it returns false. Many goroutines call it.
func NewFor(work func(ctx context.Context) bool) *Server { return &Server{work: work} }

// Restart answers at once what waits for a worker, as if the server had been
// restarted. It must come from [New].
func (s *Server) Restart() { s.workers.Restart() }

// Serve accepts from l until ctx is done, and returns when every connection is
// closed. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return modelwork.Serve(ctx, l, s.serveConn)
}

// serveConn answers one client, query by query.
func (s *Server) serveConn(ctx context.Context, c net.Conn) {
	r := bufio.NewReader(c)
	if err := welcome(c, r); err != nil {
		return
	}
	done := append(appendMessage(nil, 'C', "SELECT 0\x00"), appendMessage(nil, 'Z', "I")...)
	for {
		m, err := read(r, true)
		if err != nil || m[0] == 'X' {
			return
		}
		if m[0] == 'Q' {
			if !s.work(ctx) {
				return
			}
			if _, err := c.Write(done); err != nil {
				return
			}
		}
	}
}

// welcome lets a client in without a password, and without encryption.
func welcome(c net.Conn, r *bufio.Reader) error {
	for {
		m, err := read(r, false)
		if err != nil {
			return err
		}
		switch code := binary.BigEndian.Uint32(m); {
		case code == codeTLS || code == codeGSS:
			_, err = c.Write([]byte{'N'})
		case code>>16 == codeVersion>>16:
			hello := appendMessage(nil, 'R', "\x00\x00\x00\x00")
			hello = appendMessage(hello, 'S', "server_version\x0015.0\x00")
			_, err = c.Write(appendMessage(hello, 'Z', "I"))
			return err
		default: // a request to cancel among others
			return errors.New("modelpostgres: no start-up message")
		}
		if err != nil {
			return err
		}
	}
}

// appendMessage appends a typed message.
func appendMessage(dst []byte, kind byte, body string) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, kind), uint32(len(body)+4))
	return append(dst, body...)
}

// read reads a message: its type, unless it has none, and its body.
func read(r *bufio.Reader, typed bool) ([]byte, error) {
	var m []byte
	if typed {
		kind, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		m = []byte{kind}
	}
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[:])) - 4
	if n < 0 || n > maxMessage || !typed && n < 4 {
		return nil, fmt.Errorf("modelpostgres: message of %d bytes, want up to %d", n, maxMessage)
	}
	m = append(m, make([]byte, n)...)
	_, err := io.ReadFull(r, m[len(m)-n:])
	return m, err
}
