package selection_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/admitd/admitd/client/selection"
	"github.com/admitd/admitd/labels"
)

// A gate that answers hello, found by a monitor, and an operation that goes to
// it.
func Example() {
	gate := httptest.NewServer(labels.ServeHello(func() (labels.Hello, bool) {
		return labels.Hello{Name: "orders", Backpressure: true}, true
	}))
	defer gate.Close()

	monitor, err := selection.NewMonitor([]string{strings.TrimPrefix(gate.URL, "http://")}, selection.MonitorOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	running.Go(func() { _ = monitor.Run(ctx) })

	selector := selection.New(monitor.View(), selection.Options{})
	picked, err := selector.Select(ctx, selection.Operation{Name: "GET /orders", Write: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(picked.Server.Type, monitor.View().Topology().Type, picked.Server.Operations())
	picked.Done() // or picked.Failed(err) after a network error
	fmt.Println(picked.Server.Operations())
	// Output:
	// Mongos Sharded 1
	// 0
}

// Without a goroutine in the background: the servers are asked while
// selecting.
func ExampleNewSerial() {
	gate := httptest.NewServer(labels.ServeHello(func() (labels.Hello, bool) {
		return labels.Hello{Role: labels.RoleStandalone}, true
	}))
	defer gate.Close()

	s, err := selection.NewSerial([]string{strings.TrimPrefix(gate.URL, "http://")}, selection.SerialOptions{
		Check: selection.CheckOptions{Client: http.DefaultClient},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	picked, err := s.Select(context.Background(), selection.Operation{Name: "find"})
	fmt.Println(picked.Server.Type, err)
	picked.Done()
	// Output: Standalone <nil>
}

// Who may serve a read, by mode, tags and staleness; then who is near enough.
func ExampleTopology_Suitable() {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	server := func(address string, t selection.ServerType, dc string, rtt, behind time.Duration) *selection.Server {
		return &selection.Server{
			Address: address, Type: t, Tags: map[string]string{"dc": dc}, RTT: selection.RTT{}.Add(rtt),
			LastUpdate: at, LastWrite: at.Add(-behind),
		}
	}
	t := &selection.Topology{Type: selection.ReplicaSetWithPrimary, Servers: []*selection.Server{
		server("a:1", selection.RSPrimary, "ny", 5*time.Millisecond, 0),
		server("b:1", selection.RSSecondary, "ny", 10*time.Millisecond, time.Second),
		server("c:1", selection.RSSecondary, "ny", 90*time.Millisecond, time.Second),
		server("d:1", selection.RSSecondary, "ny", time.Millisecond, time.Hour),
		server("e:1", selection.RSSecondary, "sf", time.Millisecond, 0),
	}}
	op := selection.Operation{Preference: selection.ReadPreference{
		Mode: selection.SecondaryPreferred, TagSets: []selection.TagSet{{"dc": "ny"}, {}}, MaxStaleness: new(2 * time.Minute),
	}}
	suitable, err := t.Suitable(&op)
	for _, s := range suitable {
		fmt.Println("suitable ", s.Address)
	}
	for _, s := range selection.InWindow(suitable, selection.DefaultLocalThreshold) {
		fmt.Println("in window", s.Address)
	}
	fmt.Println(err)
	// Output:
	// suitable  b:1
	// suitable  c:1
	// in window b:1
	// <nil>
}

func ExampleRTT_Add() {
	var rtt selection.RTT
	for _, sample := range []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 10 * time.Millisecond} {
		rtt = rtt.Add(sample)
		fmt.Println(rtt.Average())
	}
	// Output:
	// 10ms true
	// 12ms true
	// 11.6ms true
}

// A program that learns its servers from elsewhere shows them itself.
func ExampleView_Replace() {
	view := selection.NewView(&selection.Topology{})
	selector := selection.New(view, selection.Options{})
	view.Replace(&selection.Topology{Type: selection.Sharded, Servers: []*selection.Server{
		{Address: "busy:1", Type: selection.Mongos, Load: selection.Load{Headroom: 2, Reported: true}},
		{Address: "free:1", Type: selection.Mongos, Load: selection.Load{Headroom: 90, Reported: true}},
	}})
	picked, err := selector.Select(context.Background(), selection.Operation{Deprioritized: []string{"busy:1"}})
	fmt.Println(picked.Server.Address, err)

	// With LeastLoaded the reported headroom decides.
	selector = selection.New(view, selection.Options{LeastLoaded: true})
	picked, err = selector.Select(context.Background(), selection.Operation{})
	fmt.Println(picked.Server.Address, err)
	// Output:
	// free:1 <nil>
	// free:1 <nil>
}

// Errors say what was wanted, what there is, and match what ended the wait.
func ExampleError() {
	view := selection.NewView(&selection.Topology{Type: selection.ReplicaSetNoPrimary, Servers: []*selection.Server{
		{Address: "a:1", Type: selection.RSSecondary},
		{Address: "b:1", Err: errors.New("connection refused")},
	}})
	selector := selection.New(view, selection.Options{Timeout: -1}) // do not wait
	_, err := selector.Select(context.Background(), selection.Operation{Name: "insert", Write: true})
	fmt.Println(err)
	fmt.Println(errors.Is(err, selection.ErrNoServer))
	// Output:
	// selection: no server for insert after 0s: no servers are suitable for writes; topology ReplicaSetNoPrimary [a:1 RSSecondary; b:1 Unknown error "connection refused"]
	// true
}
