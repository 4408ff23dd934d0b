package roundtrip

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
)

// caller is who waits for the answer: a request, and where its answer goes. The
// zero caller has left, and is asked nothing.
type caller struct {
	w        http.ResponseWriter
	r        *http.Request
	ctx      context.Context          //nolint:containedctx // a caller lives exactly as long as its request
	deadline time.Time                // its own; zero = none
	read     bool                     // its small body was
	rc       *http.ResponseController // nil until control is called
}

// control makes the response controller when it is needed for the first time.
func (c *caller) control() {
	if c.rc == nil {
		c.rc = http.NewResponseController(c.w)
	}
}

// hasLeft reports whether the client has hung up.
func (c *caller) hasLeft() bool { return c.ctx.Err() != nil }

// isGone reports whether nobody waits for the answer any more: the client has
// left, or the time that it gave is over.
func (c *caller) isGone() bool {
	return c.hasLeft() || !c.deadline.IsZero() && !time.Now().Before(c.deadline)
}

// isSmall reports whether the request has a body that is read before the backend
// is asked, or none.
func (c *caller) isSmall() bool { return c.r.ContentLength >= 0 && c.r.ContentLength <= smallUpload }

// readSmall reads a small body into buf.
func (c *caller) readSmall(buf []byte, o *Options) error {
	n := c.r.ContentLength
	if n == 0 || !c.isSmall() {
		return nil
	}
	c.control()
	if err := c.rc.SetReadDeadline(time.Now().Add(min(o.StreamIdle, o.bodyTime(n)))); err != nil {
		return errClient
	}
	if _, err := io.ReadFull(c.r.Body, buf[:n]); err != nil {
		return clientError(err)
	}
	// net/http watches for the client's end of the connection from here on,
	// and would take the deadline for it.
	_ = c.rc.SetReadDeadline(time.Time{})
	c.read = true
	return nil
}

// interim passes a 1xx answer on, less 100: the gate has answered Expect
// itself.
func (c *caller) interim(head *upstream.Head) {
	if head.Status == http.StatusContinue || c.r == nil || !c.r.ProtoAtLeast(1, 1) {
		return
	}
	h := c.w.Header()
	for _, f := range head.Fields {
		if !upstream.IsHop(f.Name, head.Listed) {
			h[f.Name] = append(h[f.Name], f.Value)
		}
	}
	c.w.WriteHeader(head.Status)
	clear(h)
}

// closeAfterBody closes an HTTP/1.1 connection after the answer when it is
// unknown what is left of the request's body.
func (c *caller) closeAfterBody() {
	if c.r.ProtoMajor == 1 && (!c.isSmall() || c.r.ContentLength > 0 && !c.read) {
		c.w.Header()["Connection"] = closeValue
	}
}
