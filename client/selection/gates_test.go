package selection_test

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

	"github.com/admitd/admitd/client/selection"
	"github.com/admitd/admitd/labels"
)

// gate stands in for an admitd: it says hello, works, drains and dies.
type gate struct {
	srv      *httptest.Server
	address  string
	inFlight atomic.Int64
	served   atomic.Int64
	draining atomic.Bool
}

// openGate listens at address; an empty one takes any free port.
func openGate(t *testing.T, address string) *gate {
	t.Helper()
	g := &gate{}
	mux := http.NewServeMux()
	mux.Handle(labels.HelloPath, labels.ServeHello(func() (labels.Hello, bool) {
		busy := g.inFlight.Load()
		h := labels.Hello{Name: "orders", MaxWireVersion: labels.WireVersion, Backpressure: true}
		h.Load = &labels.Load{InFlight: busy, Limit: 20, Headroom: max(20-busy, 0)}
		return h, !g.draining.Load()
	}))
	mux.HandleFunc("/work", func(w http.ResponseWriter, _ *http.Request) {
		if g.draining.Load() {
			doc := labels.New(labels.Draining, "orders", "default")
			w.WriteHeader(doc.Status)
			_, _ = w.Write(doc.AppendJSON(nil))
			return
		}
		g.inFlight.Add(1)
		defer g.inFlight.Add(-1)
		g.served.Add(1)
		_, _ = io.WriteString(w, "done")
	})
	g.srv = httptest.NewUnstartedServer(mux)
	if address != "" {
		var lc net.ListenConfig
		l, err := lc.Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = g.srv.Listener.Close()
		g.srv.Listener = l
	}
	g.srv.Start()
	g.address = g.srv.Listener.Addr().String()
	t.Cleanup(g.kill)
	return g
}

// kill cuts every connection, in the middle of requests.
func (g *gate) kill() {
	g.srv.CloseClientConnections()
	g.srv.Close()
}

// caller is the smallest retry policy that uses selection as it is meant:
// three attempts, none at a server that failed or refused before.
type caller struct {
	sel  *selection.Selector
	http *http.Client
	last sync.Map // address → when the last attempt that was sent there began to select
}

const attempts = 3

func (c *caller) do(ctx context.Context) error {
	op := selection.Operation{Name: "GET /work"}
	var last error
	for range attempts {
		begun := time.Now()
		picked, err := c.sel.Select(ctx, op)
		if err != nil {
			return err
		}
		op.Deprioritized = append(op.Deprioritized, picked.Server.Address)
		c.last.Store(picked.Server.Address, begun)
		status, err := c.send(ctx, picked.Server.Address)
		switch {
		case err != nil:
			picked.Failed(err)
			last = err
		case status != http.StatusOK:
			picked.Done()
			last = fmt.Errorf("refused: %d", status)
		default:
			picked.Done()
			return nil
		}
	}
	return last
}

func (c *caller) send(ctx context.Context, address string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/work", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// await returns when the server at address has the type, or fails the test.
func await(t *testing.T, view *selection.View, address string, want selection.ServerType) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		changed := view.Changed()
		if view.Topology().Server(address).Type == want {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%s is not %s after a minute: %s", address, want, view.Topology())
		}
	}
}

// Two gates under load; one dies, or drains. No caller sees an error, nothing is
// sent to it any more once that is known, which a heartbeat tells, and when it is back
// it gets its share again.
func TestTwoGates(t *testing.T) {
	if testing.Short() {
		t.Skip("real sockets")
	}
	for name, end := range map[string]func(*gate){
		"killed":  (*gate).kill,
		"drained": func(g *gate) { g.draining.Store(true) },
	} {
		t.Run(name, func(t *testing.T) { testTwoGates(t, end) })
	}
}

func testTwoGates(t *testing.T, end func(*gate)) {
	t.Helper()
	a, b := openGate(t, ""), openGate(t, "")
	// Any heartbeat above the floor would do; the shortest makes a short test.
	const heartbeat = selection.MinHeartbeat
	m, err := selection.NewMonitor([]string{a.address, b.address}, selection.MonitorOptions{
		Seeds: selection.SeedOptions{Heartbeat: heartbeat},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = m.Run(ctx) })
	view := m.View()
	await(t, view, a.address, selection.Mongos)
	await(t, view, b.address, selection.Mongos)

	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	defer transport.CloseIdleConnections()
	c := &caller{
		sel:  selection.New(view, selection.Options{LocalThreshold: time.Second, LeastLoaded: true}),
		http: &http.Client{Transport: transport},
	}
	var calls, failures atomic.Int64
	for range 8 {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := c.do(ctx); err != nil && ctx.Err() == nil {
					failures.Add(1)
					t.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for calls.Load() < 200 { // load is on both
		<-view.Changed()
	}
	if a.served.Load() == 0 || b.served.Load() == 0 {
		t.Errorf("served %d and %d, want both above 0", a.served.Load(), b.served.Load())
	}

	ended := time.Now()
	end(a)
	await(t, view, a.address, selection.Unknown)
	known := time.Now()
	before := calls.Load()
	for time.Since(known) < 2*heartbeat {
		<-view.Changed()
	}
	if calls.Load() == before {
		t.Error("no calls went through after the end")
	}
	last, _ := c.last.Load(a.address)
	// Attempts begun before the monitor's answer was in are allowed their way.
	if got := last.(time.Time).Sub(known); got > 0 {
		t.Errorf("the gate that ended was chosen by an attempt that began %v after that was known", got)
	}

	if a.draining.Swap(false) {
		await(t, view, a.address, selection.Mongos)
	} else {
		a = openGate(t, a.address)
	}
	await(t, view, a.address, selection.Mongos)
	served := a.served.Load()
	for a.served.Load() < served+50 {
		<-view.Changed()
	}
	stop()
	running.Wait()
	if failures.Load() > 0 {
		t.Errorf("%d of %d calls failed", failures.Load(), calls.Load())
	}
	t.Logf("%d calls, none failed; last attempt at the ended gate %v after its end", calls.Load(), last.(time.Time).Sub(ended).Round(time.Microsecond))
}
