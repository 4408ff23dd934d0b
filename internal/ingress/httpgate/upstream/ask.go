package upstream

import (
	"errors"

	"github.com/admitd/admitd/internal/ingress/nowait"
)

// ErrStale is returned for an idle connection that the backend has closed, or on
// which it sent what nobody asked for. Nothing was written to it.
var ErrStale = errors.New("upstream: the idle connection is of no more use")

// question is a request on its way out.
type outgoingRequest struct {
	step    func(fd uintptr) bool // askOn; made once
	request []byte                // nil = it was sent
	sent    func()
	wrote   int
	failed  error
	look    func(fd uintptr)
	quiet   bool // what look found: alive, and nothing to read
}

// hearing is the reading of an answer.
type answerReader struct {
	bare  bool                  // it is read right off the socket
	fetch func(fd uintptr) bool // fetchAt; made once
	into  []byte
	came  int
	ended error
}

// Ask sends a whole request and waits until the answer begins to arrive; reading
// it, or why it does not come, is up to the caller. sent is called in between;
// nil = nobody wants to know. It returns how much was written, and an error when
// that was not all; [ErrStale] when it was nothing because the connection is not
// good any more.
func (c *Conn) Ask(request []byte, sent func()) (int, error) {
	c.request, c.sent, c.wrote, c.failed = request, sent, 0, nil
	if c.raw == nil {
		c.askOn(0)
		return c.wrote, c.failed
	}
	// What makes it fail after the request was sent makes the caller's read fail.
	if err := c.raw.Read(c.step); err != nil && c.request != nil {
		c.failed = err
	}
	c.request, c.sent = nil, nil
	return c.wrote, c.failed
}

// askOn is called when the connection is to be asked, and again when the answer
// begins to arrive. All of this is one wait for the socket to become readable, in
// which nothing is missed that arrives behind the look at it, so that nobody has
// to try and read too early.
func (c *Conn) askOn(fd uintptr) bool {
	if c.request == nil {
		return true
	}
	quiet := c.raw == nil || nowait.IsQuiet(fd)
	if c.Used && !quiet {
		c.request, c.failed = nil, ErrStale
		return true
	}
	c.wrote, c.failed = c.sendAt(fd, c.request)
	c.request = nil
	if c.sent != nil {
		c.sent()
	}
	return c.failed != nil || !quiet // what came already does not call again
}

// Begin reports whether the connection is good for a request that is sent in
// parts: nil, or [ErrStale]. It costs a system call and saves both failed requests
// and answers that belong to nobody.
func (c *Conn) Begin() error {
	if c.raw == nil || !c.Used || c.raw.Control(c.look) == nil && c.quiet {
		return nil
	}
	return ErrStale
}

// sendAt sends a request, on the socket that is at hand as far as there is room.
func (c *Conn) sendAt(fd uintptr, request []byte) (n int, err error) {
	if c.bare && len(request) > 0 {
		if n, err = nowait.Send(fd, request); err != nil || n == len(request) {
			return n, err
		}
	}
	more, err := c.Write(request[n:])
	return n + more, err
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if !c.bare || len(p) == 0 {
		return c.Conn.Read(p)
	}
	c.into = p
	err := c.raw.Read(c.fetch)
	c.into = nil
	if err != nil {
		return 0, err
	}
	return c.came, c.ended
}

// fetchAt reads what came and reports whether anything did.
func (c *Conn) fetchAt(fd uintptr) bool {
	c.came, c.ended = nowait.Receive(fd, c.into)
	return c.came > 0 || c.ended != nil
}
