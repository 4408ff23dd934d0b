package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// scenario is one way to abuse a gate.
type scenario struct {
	name    string
	extra   string // further keys of the abused ingress
	backend behaviour
	do      func(ctx context.Context, d *daemon) (outcome string, err error)
}

// cases lists them.
func cases(o options) []scenario {
	list := []scenario{
		{name: fmt.Sprintf("%d distinct partition keys", o.keys), do: func(ctx context.Context, d *daemon) (string, error) { return keys(ctx, d, o.keys) }},
		{name: fmt.Sprintf("%d idle connections, and a tenth more", o.idle), extra: fmt.Sprintf("    connections: { maxOpen: %d }\n", o.idle), do: func(ctx context.Context, d *daemon) (string, error) { return idle(ctx, d, o.idle) }},
		{name: fmt.Sprintf("%d slow-loris connections", o.loris), do: func(ctx context.Context, d *daemon) (string, error) { return loris(ctx, d, o.loris) }},
		{name: fmt.Sprintf("%d headers of 1 MiB", o.bodies), do: func(ctx context.Context, d *daemon) (string, error) {
			return oversized(ctx, d, o.bodies, "GET / HTTP/1.1\r\nHost: h\r\nX-Large: ", 1<<20)
		}},
		{name: fmt.Sprintf("%d announced bodies of 1 GiB", o.bodies), do: func(ctx context.Context, d *daemon) (string, error) {
			return oversized(ctx, d, o.bodies, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1073741824\r\n\r\n", 16<<20)
		}},
		{name: fmt.Sprintf("%d chunked bodies of 16 MiB", o.bodies), do: func(ctx context.Context, d *daemon) (string, error) {
			return oversized(ctx, d, o.bodies, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1000000\r\n", 16<<20)
		}},
	}
	for _, b := range []struct {
		name string
		be   behaviour
	}{{"hangs", hangs}, {"dies in mid-request", dies}, {"answers garbage without end", garbage}, {"sends headers without end", endless}} {
		list = append(list, scenario{
			name: fmt.Sprintf("a backend that %s, %d callers", b.name, o.burst), backend: b.be,
			do: func(ctx context.Context, d *daemon) (string, error) { return storm(ctx, d, &o) },
		})
	}
	return list
}

// counts counts answers by what they were.
type counts struct {
	mu sync.Mutex
	by map[string]int
}

// add counts one.
func (c *counts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.by[what]++
}

// String lists them.
func (c *counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(c.by)) {
		parts = append(parts, fmt.Sprintf("%d %s", c.by[what], what))
	}
	return strings.Join(parts, ", ")
}

// keys sends n requests, each of another tenant, over 16 connections.
func keys(ctx context.Context, d *daemon, n int) (string, error) {
	const callers = 16
	var c counts
	var wg sync.WaitGroup
	errs := make([]error, callers)
	share := n / callers
	for i := range callers {
		wg.Go(func() { errs[i] = tenants(ctx, d, &c, i*share, (i+1)*share) })
	}
	wg.Wait()
	parts := d.metric(ctx, `admitd_partitions{ingress="abused"}`)
	return fmt.Sprintf("%s; %.0f partitions", &c, parts), errors.Join(errs...)
}

// tenants sends a request for each tenant in [from, to), in batches.
func tenants(ctx context.Context, d *daemon, c *counts, from, to int) error {
	const batch = 50
	conn, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 64<<10)
	for ; from < to && ctx.Err() == nil; from += batch {
		var out bytes.Buffer
		for k := from; k < min(from+batch, to); k++ {
			fmt.Fprintf(&out, "GET / HTTP/1.1\r\nHost: h\r\nX-Tenant: tenant-%d\r\n\r\n", k)
		}
		if _, err := conn.Write(out.Bytes()); err != nil {
			return err
		}
		for range min(batch, to-from) {
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				return err
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			c.add(fmt.Sprint("× ", res.StatusCode))
		}
	}
	return nil
}

// idle opens n connections and a tenth more, and leaves them.
func idle(ctx context.Context, d *daemon, n int) (string, error) {
	conns := make([]net.Conn, 0, n+n/10)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range n + n/10 {
		c, err := d.dial(ctx)
		if err != nil {
			return "", err
		}
		conns = append(conns, c)
	}
	open := d.poll(ctx, `admitd_connections_open{ingress="abused"}`, float64(n))
	refused := d.poll(ctx, `admitd_connections_rejected_total{ingress="abused",reason="max_open"}`, float64(n/10))
	select { // long enough to be measured
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
	}
	return fmt.Sprintf("%.0f open, %.0f refused", open, refused), nil
}

// dial connects to the abused gate.
func (d *daemon) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", d.abused)
}

// poll waits up to ten seconds for a series to reach a value, and returns it.
func (d *daemon) poll(ctx context.Context, series string, want float64) (got float64) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for range 100 {
		if got = d.metric(ctx, series); got >= want {
			return got
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return got
		}
	}
	return got
}

// loris sends a request a byte at a time until the gate has had enough.
func loris(ctx context.Context, d *daemon, n int) (string, error) {
	var c counts
	var wg sync.WaitGroup
	start := time.Now()
	for range n {
		wg.Go(func() {
			conn, err := d.dial(ctx)
			if err != nil {
				c.add("not connected")
				return
			}
			defer conn.Close()
			gone := make(chan struct{})
			go func() { defer close(gone); _, _ = io.Copy(io.Discard, conn) }()
			ticker := time.NewTicker(200 * time.Millisecond)
			defer ticker.Stop()
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Slow: ")
			for {
				select {
				case <-gone:
					c.add("closed")
					return
				case <-ctx.Done():
					return
				case <-time.After(30 * time.Second):
					c.add("still open after 30 s")
					return
				case <-ticker.C:
					_, _ = io.WriteString(conn, "a")
				}
			}
		})
	}
	wg.Wait()
	return fmt.Sprintf("%s, the last after %.1f s", &c, time.Since(start).Seconds()), nil
}

// oversized sends a prefix and then size bytes, 20 at a time.
func oversized(ctx context.Context, d *daemon, n int, prefix string, size int) (string, error) {
	var c counts
	var wg sync.WaitGroup
	places := make(chan struct{}, 20)
	chunk := bytes.Repeat([]byte("a"), 64<<10)
	for range n {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			conn, err := d.dial(ctx)
			if err != nil {
				c.add("not connected")
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			go func() {
				_, err := io.WriteString(conn, prefix)
				for sent := 0; sent < size && err == nil && ctx.Err() == nil; sent += len(chunk) {
					_, err = conn.Write(chunk)
				}
			}()
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				c.add("closed without an answer")
				return
			}
			defer res.Body.Close()
			c.add(fmt.Sprint("× ", res.StatusCode))
		})
	}
	wg.Wait()
	return c.String(), nil
}

// storm has callers send requests for a while.
func storm(ctx context.Context, d *daemon, o *options) (string, error) {
	ended := make(chan struct{})
	time.AfterFunc(o.storm, func() { close(ended) })
	var c counts
	var wg sync.WaitGroup
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: o.burst}}
	defer client.CloseIdleConnections()
	for range o.burst {
		wg.Go(func() {
			for isOpen(ended) {
				res, err := get(ctx, client, "http://"+d.abused)
				if err != nil {
					c.add("failed")
					continue
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				what := fmt.Sprint("× ", res.StatusCode)
				if res.Header.Get("X-Admitd-Reason") != "" {
					what += " refused"
					select { // a client that obeys a little
					case <-time.After(50 * time.Millisecond):
					case <-ended:
					}
				}
				c.add(what)
			}
		})
	}
	wg.Wait()
	return c.String(), nil
}

// isOpen reports whether nobody closed c yet.
func isOpen(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}
