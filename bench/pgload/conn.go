package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"
)

// conn is one session, which speaks as little of the protocol as simple queries
// need: clients share the machine with what is measured.
type conn struct {
	net    net.Conn
	in     *bufio.Reader
	out    []byte
	broken bool
}

// refusal is an error of the gate.
type refusal struct {
	reason     string
	retryAfter time.Duration
}

func (r *refusal) Error() string { return "refused" }

// open connects and logs in to the database app.
func open(ctx context.Context, addr, user string) (*conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{net: nc, in: bufio.NewReaderSize(nc, 2048)}
	body := "\x00\x03\x00\x00user\x00" + user + "\x00database\x00app\x00\x00"
	c.out = append(binary.BigEndian.AppendUint32(c.out, uint32(len(body)+4)), body...)
	if _, err = nc.Write(c.out); err == nil {
		_ = nc.SetReadDeadline(time.Now().Add(30 * time.Second))
		err = c.answer()
		_ = nc.SetReadDeadline(time.Time{})
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("login: %w", err)
	}
	return c, nil
}

func (c *conn) close() { c.net.Close() }

// interrupt ends whatever waits for an answer.
func (c *conn) interrupt() { _ = c.net.SetReadDeadline(time.Unix(1, 0)) }

// transaction sends the statements one by one. After an error inside a transaction
// it rolls back.
func (c *conn) transaction(statements []string) error {
	for i, s := range statements {
		err := c.query(s)
		if err == nil {
			continue
		}
		if i > 0 && !c.broken {
			_ = c.query("rollback")
		}
		return err
	}
	return nil
}

// query sends one statement, and reads its answer.
func (c *conn) query(sql string) error {
	c.out = append(c.out[:0], 'Q')
	c.out = append(binary.BigEndian.AppendUint32(c.out, uint32(len(sql)+5)), sql...)
	c.out = append(c.out, 0)
	if _, err := c.net.Write(c.out); err != nil {
		c.broken = true
		return err
	}
	return c.answer()
}

// answer reads up to ReadyForQuery, and returns the last error that came.
func (c *conn) answer() (failed error) {
	var head [5]byte
	for {
		if _, err := io.ReadFull(c.in, head[:]); err != nil {
			c.broken = true
			if failed != nil {
				return failed
			}
			return err
		}
		n := int(binary.BigEndian.Uint32(head[1:])) - 4
		switch head[0] {
		case 'Z':
			_, err := c.in.Discard(n)
			c.broken = err != nil
			return failed
		case 'E':
			body := make([]byte, n)
			if _, err := io.ReadFull(c.in, body); err != nil {
				c.broken = true
				return err
			}
			failed = parseError(body)
		default:
			if _, err := c.in.Discard(n); err != nil {
				c.broken = true
				return err
			}
		}
	}
}

// parseError tells a refusal from other errors by the document in its detail.
func parseError(body []byte) error {
	var code, message, detail string
	for len(body) > 1 {
		end := 1
		for end < len(body) && body[end] != 0 {
			end++
		}
		switch value := string(body[1:end]); body[0] {
		case 'C':
			code = value
		case 'M':
			message = value
		case 'D':
			detail = value
		}
		body = body[min(end+1, len(body)):]
	}
	var document struct {
		RetryAfterMS int64  `json:"retryAfterMS"`
		Reason       string `json:"reason"`
	}
	if len(code) == 5 && code[:2] == "53" && json.Unmarshal([]byte(detail), &document) == nil && document.Reason != "" {
		return &refusal{document.Reason, time.Duration(document.RetryAfterMS) * time.Millisecond}
	}
	return fmt.Errorf("%s: %s", code, message)
}
