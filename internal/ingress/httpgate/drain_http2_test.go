package httpgate_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/limiter"
)

// A drain tells clients of HTTP/2 at once that nothing more will be answered, lets what
// is in flight finish, and closes. One that does not finish is cut off at its bound.
func TestHTTP2Drain(t *testing.T) { inLanes(t, drains) }

func drains(t *testing.T, l lane) {
	t.Helper()
	for _, finishes := range []bool{true, false} {
		arrived, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		free := func() { once.Do(func() { close(release) }) }
		t.Cleanup(free)
		g := l.frugal(t, serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/begun" {
				_, _ = io.WriteString(w, "begun ")
				_ = http.NewResponseController(w).Flush()
			}
			body := make(chan error, 1)
			go func() { _, err := io.Copy(io.Discard, r.Body); body <- err }()
			arrived <- struct{}{}
			<-release
			if err := <-body; err == nil {
				_, _ = io.WriteString(w, "finished")
			}
		}), limiter.Policy{}, httpgate.Options{Ingress: ingress.Options{DrainTimeout: patience}})
		t.Cleanup(free) // before the backend waits for its requests
		c, idle := l.speak(t, g.addr, rawhttp2.Options{}), l.speak(t, g.addr, rawhttp2.Options{})
		idle.Sync()
		c.Ask(1, "GET", "/")
		c.Ask(3, "GET", "/begun")
		c.Begin(5, "POST", "/")
		for range 3 {
			<-arrived
		}
		ctx, cancel := context.WithCancel(t.Context())
		drained := make(chan error, 1)
		go func() { drained <- g.Drain(ctx) }()
		if away := c.Away(); away == nil || away.ErrCode != http2.ErrCodeNo || away.LastStreamID < 5 {
			t.Errorf("GOAWAY %+v, want one that leaves the streams alone", away)
		}
		if !finishes {
			cancel()
			if err := <-drained; !errors.Is(err, ingress.ErrCut) {
				t.Errorf("Drain = %v, want what was cut off", err)
			}
			_ = c.End()
			free()
			if !until(func() bool { return g.gate.Status().InFlight == 0 }) {
				t.Error("permits are held after the end")
			}
			continue
		}
		if !c.Send(5, true, []byte("the rest")) {
			t.Errorf("%+v, want the rest of the body to be taken", c.Of(5))
		}
		free()
		for id, want := range map[uint32]string{1: "finished", 3: "begun finished", 5: "finished"} {
			if got := c.Answer(id); string(got.Body) != want || !got.Ended {
				t.Errorf("stream %d: %+v, want %q", id, got, want)
			}
		}
		if err := c.End(); err != nil {
			t.Errorf("the connection ended with %v, want its proper end", err)
		}
		if err := idle.End(); err != nil {
			t.Errorf("an idle connection ended with %v", err)
		}
		if err := <-drained; err != nil {
			t.Errorf("Drain = %v", err)
		}
		cancel()
	}
}

// A reload replaces what requests meet and leaves streams and connections alone.
func TestHTTP2Reload(t *testing.T) {
	backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})
	g := lane{}.frugal(t, backend, limiter.Policy{}, httpgate.Options{})
	c := lane{}.speak(t, g.addr, rawhttp2.Options{})
	reload := func(i int) {
		if err := g.Apply(httpgate.Options{Backend: "http://" + backend, Timing: i%2 == 0, MaxIdle: 1 + i%3}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		id, want := uint32(2*i+1), strings.Repeat("x", i*400)
		c.Begin(id, "POST", "/")
		reload(i)
		c.Send(id, true, []byte(want))
		reload(i)
		if got := c.Answer(id); string(got.Body) != want || !got.Ended {
			t.Fatalf("stream %d: %s and %d bytes, want 200 and %d", id, got.Status, len(got.Body), len(want))
		}
	}
	if n := g.Status().Connections.Accepted; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// Streams above the bound are refused as such, so that clients send them again; those
// below it go on.
func TestHTTP2TooManyStreams(t *testing.T) {
	const most = 250
	release := make(chan struct{})
	roomy := limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(1000) }}}
	g := lane{}.frugal(t, serveHTTP(t, func(http.ResponseWriter, *http.Request) { <-release }), roomy, httpgate.Options{ConnectTimeout: time.Minute})
	c := lane{}.speak(t, g.addr, rawhttp2.Options{})
	for i := range uint32(most) {
		c.Ask(2*i+1, "GET", "/")
	}
	if !until(func() bool { return g.gate.Status().InFlight == most }) {
		t.Fatalf("%d permits are held, want %d", g.gate.Status().InFlight, most)
	}
	for id := uint32(2*most + 1); id < 2*most+40; id += 2 {
		c.Ask(id, "GET", "/")
		if got := c.Answer(id); got.Reset == nil || *got.Reset != http2.ErrCodeRefusedStream && *got.Reset != http2.ErrCodeProtocol {
			t.Errorf("stream %d: %+v, want it refused", id, got)
		}
	}
	close(release)
	for i := range uint32(most) {
		if got := c.Answer(2*i + 1); got.Status != "200" {
			t.Errorf("stream %d: %+v, want 200", 2*i+1, got)
		}
	}
	c.Ask(999, "GET", "/")
	if got := c.Answer(999); got.Status != "200" {
		t.Errorf("after all: %+v, want 200", got)
	}
}
