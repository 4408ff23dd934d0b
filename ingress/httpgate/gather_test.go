package httpgate_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// What is written over HTTP/2 waits for nobody while the client is about to take
// what came before, arrives in order whatever the lengths are, and arrives whole
// although the connection is closed behind it.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		c := httpgate.Gathering(newSocketlike(t, server))
		var want bytes.Buffer
		for i := range 60 {
			piece := bytes.Repeat([]byte{byte(i)}, 1+i)
			want.Write(piece)
			if _, err := c.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		go func() {
			long := bytes.Repeat([]byte("long"), 10_000)
			for _, piece := range [][]byte{long, []byte("short"), long, []byte("last")} {
				if n, err := c.Write(piece); n != len(piece) || err != nil {
					t.Errorf("wrote %d of %d bytes, %v", n, len(piece), err)
				}
				want.Write(piece)
			}
			_ = c.Close()
		}()
		got, err := io.ReadAll(client)
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%d bytes arrived, %v; want the %d that were written", len(got), err, want.Len())
		}
	})
}

// A client that takes nothing is written to for no longer than the deadline says,
// and what is gathered for it is bounded; closing does not wait for it.
func TestGatherForNobody(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := httpgate.Gathering(server)
	piece, written := make([]byte, 4<<10), 0
	for err == nil {
		_ = c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		_, err = c.Write(piece)
		if written += len(piece); written > 1<<30 {
			t.Fatal("a GiB was taken for a client that reads nothing")
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing ended with %v, want the deadline", err)
	}
	_ = c.Close()
	if _, err := c.Write(piece); err == nil {
		t.Error("a closed connection takes more")
	}
}

// A client that begins as one of HTTP/2 and goes on with nonsense is answered
// before the end of its connection.
func TestGatherForNonsense(t *testing.T) {
	g := start(t, "127.0.0.1:1", limiter.Policy{}, httpgate.Options{})
	c, br := dial(t, g.addr)
	_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\nHost: a b\r\n\r\n")
	if r, err := readReply(br); err != nil || r.StatusCode != http.StatusBadRequest {
		t.Errorf("%+v, %v; want 400", r.Response, err)
	}
}

// Many streams of one connection get each its own answer, long and short, with
// TLS and without.
func TestManyStreams(t *testing.T) {
	inLanes(t, func(t *testing.T, l lane) {
		t.Helper()
		backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(r.URL.Path, 1+len(r.URL.Path)*len(r.URL.Path)))
		})
		roomy := limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(1000) }}}
		g := l.start(t, backend, roomy, httpgate.Options{ConnectTimeout: time.Minute})
		client := newClient(t, "2")
		tr, _ := client.Transport.(*http.Transport)
		tr.Protocols.SetHTTP2(true)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				path := "/" + strings.Repeat("x", i)
				resp, err := client.Get(g.url + path)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if want := strings.Repeat(path, 1+len(path)*len(path)); err != nil || resp.ProtoMajor != 2 || string(body) != want {
					t.Errorf("HTTP/%d, %d bytes, %v; want 2 and %d bytes", resp.ProtoMajor, len(body), err, len(want))
				}
			})
		}
		wg.Wait()
	})
}
