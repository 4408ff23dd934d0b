package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// stream is requests of one kind, sent at a rate whatever becomes of them.
type stream struct {
	rate     float64 // per second
	method   string  // "" = GET
	path     string  // "" = /
	header   map[string]string
	tenants  []string // take turns in the header X-Tenant
	class    string   // in the header X-Class
	patience time.Duration
	body     int           // bytes
	over     time.Duration // time in which the body is sent
	h2       bool
	close    bool // a connection for each request
	after    time.Duration
}

// generator sends the streams of a phase to one ingress.
type generator struct {
	ledger *ledger
	url    string
	one    *http.Transport // HTTP/1.1
	two    *http.Transport // HTTP/2 without TLS
}

func newGenerator(l *ledger, address string) *generator {
	g := &generator{ledger: l, url: "http://" + address}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.connection(1)
		counts := &counted{Conn: c, ledger: l, closed: sync.OnceFunc(func() { l.connection(-1) })}
		counts.carries.Store(-1)
		return counts, nil
	}
	g.one = &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 10000, DisableCompression: true}
	g.two = &http.Transport{DialContext: dial, Protocols: new(http.Protocols)}
	g.two.Protocols.SetUnencryptedHTTP2(true)
	return g
}

// counted is a connection that says when it is closed, and when the request that it
// carries was written.
type counted struct {
	net.Conn
	ledger  *ledger
	carries atomic.Int64 // its number; -1 = nobody knows
	closed  func()
}

// Write implements net.Conn.
func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if id := c.carries.Load(); err == nil && id >= 0 {
		c.ledger.change(int(id), func(r *request) { r.written = true })
	}
	return n, err
}

// Close implements net.Conn.
func (c *counted) Close() error { c.closed(); return c.Conn.Close() }

// send sends the streams for so long, and returns when each request has ended.
func (g *generator) send(ctx context.Context, streams []stream, lasts time.Duration) {
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			each(ctx, &streams[i], lasts, func(n int) { g.ask(context.WithoutCancel(ctx), &streams[i], n) })
		})
	}
	wg.Wait()
}

// each runs f when the requests of a stream are due. One that is late by the load of the
// machine is sent nevertheless. It returns when each has ended.
func each(ctx context.Context, s *stream, lasts time.Duration, f func(n int)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	began := time.Now()
	for n := 0; ; n++ {
		due := s.after + time.Duration(float64(n)/s.rate*float64(time.Second))
		if due >= lasts {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(due - time.Since(began)):
		}
		wg.Go(func() { f(n) })
	}
}

// ask sends one request and notes what becomes of it.
func (g *generator) ask(ctx context.Context, s *stream, n int) {
	r := &request{class: s.class}
	if len(s.tenants) > 0 {
		r.tenant = s.tenants[n%len(s.tenants)]
	}
	id := g.ledger.add(r)
	patience := s.patience
	if patience == 0 {
		patience = 20 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { // into a buffer
			now := time.Now()
			g.ledger.change(id, func(r *request) { r.sent = now })
		},
		GotConn: func(i httptrace.GotConnInfo) {
			if c, ok := i.Conn.(*counted); ok && !s.h2 {
				c.carries.Store(int64(id)) // alone
			}
		},
		WroteRequest: func(i httptrace.WroteRequestInfo) { // over HTTP/1.1 into a buffer, too
			if s.h2 {
				g.ledger.change(id, func(r *request) { r.written = i.Err == nil })
			}
		},
	})
	var body io.Reader
	if s.body > 0 {
		body = &slowly{left: s.body, over: s.over, began: time.Now(), size: s.body}
	}
	method, path := s.method, s.path
	if method == "" {
		method = http.MethodGet
	}
	if path == "" {
		path = "/"
	}
	req, err := http.NewRequestWithContext(ctx, method, g.url+path, body)
	if err != nil {
		return
	}
	if s.body > 0 {
		req.ContentLength = int64(s.body)
	}
	req.Header.Set(idHeader, strconv.Itoa(id))
	if r.tenant != "" {
		req.Header.Set("X-Tenant", r.tenant)
	}
	if s.class != "" {
		req.Header.Set("X-Class", s.class)
	}
	for k, v := range s.header {
		req.Header.Set(k, v)
	}
	req.Close = s.close
	t := g.one
	if s.h2 {
		t = g.two
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		g.gone(id, err)
		return
	}
	g.read(id, res)
}

// gone notes that a client has left, or lost its connection.
func (g *generator) gone(id int, err error) {
	now := time.Now()
	g.ledger.change(id, func(r *request) {
		r.ended = now
		r.left = errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	})
}

// read notes an answer.
func (g *generator) read(id int, res *http.Response) {
	defer res.Body.Close()
	var told struct{ Limit, Partition string }
	reason := res.Header.Get("X-Admitd-Reason")
	var err error
	if reason != "" {
		err = json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(&told)
	} else {
		_, err = io.Copy(io.Discard, res.Body)
	}
	now := time.Now()
	g.ledger.change(id, func(r *request) {
		r.ended, r.status, r.unread = now, res.StatusCode, err != nil
		r.backend = res.Header.Get("X-Backend") != ""
		r.left = err != nil && errors.Is(err, context.DeadlineExceeded)
		r.refused = refusal{reason, told.Limit, told.Partition}
	})
}

// end closes the connections that are kept.
func (g *generator) end() {
	g.one.CloseIdleConnections()
	g.two.CloseIdleConnections()
}

// slowly is a body that takes its time.
type slowly struct {
	left, size int
	over       time.Duration
	began      time.Time
}

// Read implements io.Reader.
func (b *slowly) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if b.over > 0 {
		p = p[:min(len(p), max(b.size/20, 1))]
		done := float64(b.size-b.left) / float64(b.size)
		time.Sleep(time.Until(b.began.Add(time.Duration(done * float64(b.over)))))
	}
	n := min(len(p), b.left)
	b.left -= n
	return copy(p, strings.Repeat("x", n)), nil
}
