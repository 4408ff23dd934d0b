package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/client/selection"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/testkit/configured"
)

// One of two gates is killed under load, its connections cut in the middle of
// requests: no caller sees an error, and the load moves to the other gate as soon as
// that is known. When the gate is back, it gets load again.
func TestKillingOneOfTwoGatesUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("real sockets and heartbeats: takes seconds")
	}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(backend.Close)
	var relays [2]*relay
	for i := range relays {
		relays[i] = openRelay(t, startGate(t, backend.URL))
	}
	calls := newSelectingCaller(t, relays[0].address, relays[1].address)
	calls.start(t, 8)
	waitFor(t, "both gates to serve", func() bool { return relays[0].conns.Load() > 0 && relays[1].conns.Load() > 0 })

	relays[0].kill()
	waitFor(t, "its death to be known", func() bool { return calls.view.Topology().Server(relays[0].address).Type == selection.Unknown })
	known, before := time.Now(), calls.done.Load()
	waitFor(t, "the load to move", func() bool {
		return calls.done.Load() > before+100 && time.Since(known) > selection.MinHeartbeat
	})
	last, _ := calls.last.Load(relays[0].address)
	if at, ok := last.(time.Time); ok && at.After(known) {
		t.Errorf("the killed gate was chosen by an attempt that began %v after its death was known", at.Sub(known))
	}
	relays[0].revive(t)
	waitFor(t, "the gate to get load again", func() bool { return relays[0].conns.Load() > 0 })
	calls.stop()
	if n := calls.failed.Load(); n > 0 {
		err, _ := calls.first.Load().(error)
		t.Errorf("%d of %d calls failed, first with %v; want none", n, calls.done.Load(), err)
	}
	if calls.done.Load() == 0 {
		t.Error("no call was made")
	}
}

// waitFor polls until ok, however busy the machine is.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// startGate runs a daemon with one HTTP ingress and returns its address.
func startGate(t *testing.T, backend string) string {
	t.Helper()
	cfg := configured.From(t, fmt.Sprintf(`{"log": {"level": "error"}, "admin": {"listen": "127.0.0.1:0"},
		"ingresses": [{"name": "orders", "listen": "127.0.0.1:0", "backend": %q, "drainTimeout": "1s"}]}`, backend))
	d, err := daemon.New(cfg, daemon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case err := <-ended:
		t.Fatal(err)
	case <-d.Up():
	}
	return d.Address("orders").String()
}

// relay copies bytes to a gate, and can be cut off like a machine that dies.
type relay struct {
	address, target string
	conns           atomic.Int64 // accepted since it came up

	mu   sync.Mutex // guards the fields below
	ln   net.Listener
	open map[net.Conn]bool
}

// openRelay listens on a free port.
func openRelay(t *testing.T, target string) *relay {
	t.Helper()
	r := &relay{address: "127.0.0.1:0", target: target}
	r.revive(t)
	t.Cleanup(r.kill)
	return r
}

// revive listens again on the same address.
func (r *relay) revive(t *testing.T) {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.address, r.ln, r.open = ln.Addr().String(), ln, map[net.Conn]bool{}
	r.conns.Store(0)
	go r.serve(ln)
}

// serve relays every connection.
func (r *relay) serve(ln net.Listener) {
	for {
		in, err := ln.Accept()
		if err != nil {
			return
		}
		out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", r.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		r.mu.Lock()
		r.open[in], r.open[out] = true, true
		r.mu.Unlock()
		r.conns.Add(1)
		go copyAndClose(in, out)
		go copyAndClose(out, in)
	}
}

// copyAndClose copies one direction.
func copyAndClose(dst, src net.Conn) {
	_, _ = io.Copy(dst, src)
	_ = dst.Close()
	_ = src.Close()
}

// kill closes the listener and every connection.
func (r *relay) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.ln.Close()
	for c := range r.open {
		_ = c.Close()
	}
}

// selectingCaller calls through the reference client, which selects a gate for
// every attempt.
type selectingCaller struct {
	client *client.Client
	sel    *selection.Selector
	view   *selection.View
	http   *http.Client

	cancel       context.CancelFunc
	wg           sync.WaitGroup
	last         sync.Map // address → when the last attempt that was sent there began to select
	done, failed atomic.Int64
	first        atomic.Value // error of the first call that failed
}

// newSelectingCaller polls the gates and returns a caller.
func newSelectingCaller(t *testing.T, seeds ...string) *selectingCaller {
	t.Helper()
	m, err := selection.NewMonitor(seeds, selection.MonitorOptions{Seeds: selection.SeedOptions{Heartbeat: selection.MinHeartbeat}})
	if err != nil {
		t.Fatal(err)
	}
	policy := client.Driver()
	policy.Retarget = true
	c, err := client.New(client.Options{Policy: &policy})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &selectingCaller{
		client: c, sel: selection.New(m.View(), selection.Options{LeastLoaded: true}), view: m.View(), cancel: cancel,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: 5 * time.Second},
	}
	s.wg.Go(func() { _ = m.Run(ctx) })
	t.Cleanup(s.stop)
	return s
}

// start lets n callers call until stop.
func (s *selectingCaller) start(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	monitor := s.cancel
	s.cancel = func() { cancel(); monitor() }
	for range n {
		s.wg.Go(func() {
			for ctx.Err() == nil {
				err := s.call(ctx)
				if err != nil && ctx.Err() == nil {
					s.failed.Add(1)
					s.first.CompareAndSwap(nil, err)
				}
				s.done.Add(1)
			}
		})
	}
}

// stop ends the calls and the monitor.
func (s *selectingCaller) stop() {
	s.cancel()
	s.wg.Wait()
	s.http.CloseIdleConnections()
}

// call is one operation.
func (s *selectingCaller) call(ctx context.Context) error {
	return s.client.Do(ctx, client.Operation{Name: "GET /", Kind: client.Read, Run: func(ctx context.Context, a *client.Attempt) error {
		begun := time.Now()
		chosen, err := s.sel.Select(ctx, selection.Operation{Name: "GET /", Deprioritized: a.Deprioritized(true)})
		if err != nil {
			return err
		}
		a.Server = chosen.Server.Address
		s.last.Store(a.Server, begun)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.Server+"/", nil)
		if err != nil {
			return err
		}
		resp, err := s.http.Do(req)
		if err != nil {
			chosen.Failed(err)
			return &client.Failure{Err: err, Transient: true, Server: a.Server}
		}
		defer resp.Body.Close()
		chosen.Done()
		if f := client.ResponseFailure(resp); f != nil {
			return f
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return &client.Failure{Err: err, Transient: true, Server: a.Server}
		}
		return nil
	}})
}
