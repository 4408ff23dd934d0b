package modelpostgres

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"
)

// Error is an error that the server, or a gate before it, answered with.
type Error struct {
	// Code is the SQLSTATE.
	Code string
	// Message is for people.
	Message string
	// Labels are those of a gate's refusal, from its DETAIL.
	Labels []string
	// RetryAfter is how long a gate says to wait; 0 = unknown.
	RetryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("modelpostgres: %s (SQLSTATE %s)", e.Message, e.Code)
}

// Client is one connection. It belongs to one goroutine.
type Client struct {
	conn net.Conn
	r    *bufio.Reader
}

// Dial connects and logs in, as the user demo.
func Dial(ctx context.Context, address string) (*Client, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, r: bufio.NewReader(conn)}
	hello := "user\x00demo\x00\x00"
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(hello)))
	b = append(binary.BigEndian.AppendUint32(b, codeVersion), hello...)
	if err := c.exchange(b); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// Query runs a query that returns no rows. After an [*Error] the connection goes
// on.
func (c *Client) Query(text string) error { return c.exchange(appendMessage(nil, 'Q', text+"\x00")) }

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// exchange writes b and reads up to the next ReadyForQuery.
func (c *Client) exchange(b []byte) error {
	if _, err := c.conn.Write(b); err != nil {
		return err
	}
	var failed error
	for {
		m, err := read(c.r, true)
		switch {
		case err != nil && failed != nil: // it was fatal
			return failed
		case err != nil:
			return err
		case m[0] == 'E':
			failed = parseError(string(m[1:]))
		case m[0] == 'Z':
			return failed
		}
	}
}

// parseError reads the fields of an ErrorResponse.
func parseError(fields string) error {
	e := &Error{}
	for field := range strings.SplitSeq(fields, "\x00") {
		if field == "" {
			continue
		}
		switch value := field[1:]; field[0] {
		case 'C':
			e.Code = value
		case 'M':
			e.Message = value
		case 'D':
			var d struct {
				ErrorLabels  []string `json:"errorLabels"`
				RetryAfterMS int64    `json:"retryAfterMS"`
			}
			if json.Unmarshal([]byte(value), &d) == nil {
				e.Labels, e.RetryAfter = d.ErrorLabels, time.Duration(d.RetryAfterMS)*time.Millisecond
			}
		}
	}
	return e
}
