package modelmongo

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/internal/mongowire"
)

// What drivers of the newest generation do on an overload error.
const (
	maxRetries  = 2
	baseBackoff = 100 * time.Millisecond
	maxBackoff  = 10 * time.Second
)

// Error is an error that the server answered with.
type Error struct {
	Code        int32
	Message     string
	Labels      []string
	BaseBackoff time.Duration // from baseBackoffMS; 0 = none
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("modelmongo: error %d: %s", e.Code, e.Message) }

// Retryable reports whether the error carries both overload labels.
func (e *Error) Retryable() bool {
	return slices.Contains(e.Labels, "SystemOverloadedError") && slices.Contains(e.Labels, "RetryableError")
}

// Client is one connection. It is not safe for concurrent use.
type Client struct {
	c   net.Conn
	r   *bufio.Reader
	in  frame
	out []byte
	id  int32
}

// Dial connects and says hello, with backpressure "2" when obedient and
// nothing of the kind otherwise.
func Dial(ctx context.Context, addr string, obedient bool) (*Client, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	cl := &Client{c: c, r: bufio.NewReader(c)}
	fields := [][]byte{bsoncore.AppendInt32Element(nil, "hello", 1)}
	if obedient {
		fields = append(fields, bsoncore.AppendStringElement(nil, "backpressure", "2"))
	}
	fields = append(fields, bsoncore.AppendStringElement(nil, "$db", "admin"))
	if err := cl.Once(bsoncore.BuildDocument(nil, fields...)); err != nil {
		_ = c.Close()
		return nil, err
	}
	return cl, nil
}

// Close closes the connection.
func (cl *Client) Close() error { return cl.c.Close() }

// Find runs find on a collection, and retries it as drivers do.
func (cl *Client) Find(ctx context.Context, db, coll string) error {
	return cl.Do(ctx, bsoncore.BuildDocument(nil, bsoncore.AppendStringElement(nil, "find", coll),
		bsoncore.AppendStringElement(nil, "$db", db)))
}

// Do runs a command. A refusal that allows it is retried twice, after a
// jittered backoff that doubles, from the base the server named. It returns
// an [*Error] when the server answered with one.
func (cl *Client) Do(ctx context.Context, command bsoncore.Document) error {
	for attempt := 1; ; attempt++ {
		err := cl.Once(command)
		e, ok := err.(*Error) //nolint:errorlint // Once wraps nothing
		if !ok || !e.Retryable() || attempt > maxRetries {
			return err
		}
		base := baseBackoff
		if e.BaseBackoff > 0 {
			base = e.BaseBackoff
		}
		wait := time.Duration(rand.Float64() * float64(min(base<<attempt, maxBackoff))) //nolint:gosec // jitter, no secret
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// Once runs a command without retrying.
func (cl *Client) Once(command bsoncore.Document) error {
	cl.id++
	cl.out = mongowire.AppendMessage(cl.out[:0], mongowire.Header{ID: cl.id, Op: mongowire.OpMsg}, command)
	if _, err := cl.c.Write(cl.out); err != nil {
		return err
	}
	if err := cl.in.read(cl.r); err != nil {
		return err
	}
	if cl.in.ResponseTo != cl.id {
		return fmt.Errorf("%w: reply to %d, expected one to %d", mongowire.ErrFrame, cl.in.ResponseTo, cl.id)
	}
	return readError(cl.in.doc)
}

// readError returns the error in a reply, nil when it says ok.
func readError(doc bsoncore.Document) error {
	if ok, found := doc.Lookup("ok").AsInt64OK(); found && ok != 0 {
		return nil
	}
	e := &Error{}
	e.Code, _ = doc.Lookup("code").Int32OK()
	e.Message, _ = doc.Lookup("errmsg").StringValueOK()
	if ms, ok := doc.Lookup("baseBackoffMS").AsInt64OK(); ok {
		e.BaseBackoff = time.Duration(ms) * time.Millisecond
	}
	if arr, ok := doc.Lookup("errorLabels").ArrayOK(); ok {
		values, _ := arr.Values()
		for _, v := range values {
			if s, ok := v.StringValueOK(); ok {
				e.Labels = append(e.Labels, s)
			}
		}
	}
	return e
}
