package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// serveBackend answers every request with the same bytes, as cheaply as Go can.
func serveBackend(listen string, size int) error {
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"+
		"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", size, bytes.Repeat([]byte("x"), size))
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			br := bufio.NewReader(c)
			for skipHead(br) == nil {
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
		}()
	}
}

// skipHead reads past an empty line.
func skipHead(br *bufio.Reader) error {
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			return nil
		}
	}
}

// load is what a closed loop of connections saw.
type load struct {
	done      int
	status    map[int]int
	took      time.Duration
	p50, p99  time.Duration
	latencies []time.Duration
}

// drive sends requests over conns connections, one at a time on each.
func drive(ctx context.Context, dial func() (net.Conn, error), conns int, d time.Duration) (load, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var wg sync.WaitGroup
	parts, errs := make([]load, conns), make([]error, conns)
	began := time.Now()
	for i := range conns {
		wg.Go(func() { parts[i], errs[i] = driveOne(ctx, dial, i) })
	}
	wg.Wait()
	all := load{status: map[int]int{}, took: time.Since(began)}
	for i := range parts {
		for s, n := range parts[i].status {
			all.status[s] += n
			all.done += n
		}
		all.latencies = append(all.latencies, parts[i].latencies...)
	}
	slices.Sort(all.latencies)
	if n := len(all.latencies); n > 0 {
		all.p50, all.p99 = all.latencies[n/2], all.latencies[n*99/100]
	}
	all.latencies = nil
	return all, errors.Join(errs...)
}

// driveOne is one connection of drive. A server may close it after an answer.
func driveOne(ctx context.Context, dial func() (net.Conn, error), i int) (load, error) {
	l := load{status: map[int]int{}}
	request := fmt.Appendf(nil, "GET /orders/1 HTTP/1.1\r\nHost: bench\r\nX-Tenant: tenant-%d\r\nUser-Agent: httpbench\r\nAccept: */*\r\n\r\n", i%8)
	var c net.Conn
	var br *bufio.Reader
	for ctx.Err() == nil {
		if c == nil {
			var err error
			if c, err = dial(); err != nil {
				return l, err
			}
			br = bufio.NewReader(c)
		}
		began := time.Now()
		_, err := c.Write(request)
		status, again := 0, false
		if err == nil {
			status, again, err = skipAnswer(br)
		}
		if err != nil {
			c.Close()
			return l, fmt.Errorf("request %d: %w", len(l.latencies), err)
		}
		l.latencies = append(l.latencies, time.Since(began))
		l.status[status]++
		if !again {
			c.Close()
			c = nil
		}
	}
	if c != nil {
		c.Close()
	}
	return l, nil
}

// skipAnswer reads one answer with a Content-Length.
func skipAnswer(br *bufio.Reader) (status int, again bool, err error) {
	length := -1
	again = true
	for first := true; ; first = false {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		if first {
			if len(line) < 12 {
				return 0, false, fmt.Errorf("status line %q", line)
			}
			status, _ = strconv.Atoi(string(line[9:12]))
			continue
		}
		if len(line) == 2 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		case bytes.EqualFold(name, []byte("connection")) && bytes.EqualFold(bytes.TrimSpace(value), []byte("close")):
			again = false
		}
	}
	if length < 0 {
		if !again { // to the end
			_, err = io.Copy(io.Discard, br)
			return status, false, err
		}
		return 0, false, errors.New("answer without Content-Length")
	}
	_, err = br.Discard(length)
	return status, again, err
}
