package selection_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/client/selection"
	"github.com/admitd/admitd/labels"
)

// run starts a monitor over net and returns its view, and what stops it and
// waits for it.
func run(t *testing.T, net *fakeNet, o selection.MonitorOptions, addresses ...string) (view *selection.View, stop func()) {
	t.Helper()
	o.Check.Client = net.client()
	m, err := selection.NewMonitor(addresses, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return m.View(), func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want Canceled", err)
		}
	}
}

func router(takes time.Duration) *fakeServer {
	return &fakeServer{hello: hello(labels.RoleRouter), takes: takes}
}

// Every server is asked at once and then a heartbeat after each answer; the
// round trips are averaged; a server that stops is asked once more, is unknown
// without an average, and starts a new one when it returns.
func TestMonitorHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFakeNet(map[string]*fakeServer{"a:1": router(10 * time.Millisecond)})
		view, stop := run(t, net, selection.MonitorOptions{}, "a:1")
		defer stop()
		rtt := func() time.Duration {
			synctest.Wait()
			got, known := view.Topology().Servers[0].RTT.Average()
			if !known {
				return -1
			}
			return got
		}
		time.Sleep(10 * time.Millisecond)
		if got := rtt(); got != 10*time.Millisecond {
			t.Errorf("first round trip = %v, want 10ms", got)
		}
		net.setA(router(60 * time.Millisecond))
		time.Sleep(10*time.Second + 60*time.Millisecond)
		if got := rtt(); got != 20*time.Millisecond {
			t.Errorf("average = %v, want 0.2*60ms + 0.8*10ms", got)
		}
		net.setA(nil)
		time.Sleep(10 * time.Second)
		if got := rtt(); got != -1 || !errors.Is(view.Topology().Servers[0].Err, errRefused) {
			t.Errorf("lost server: round trip %v, %v; want none, and why", got, view.Topology().Servers[0])
		}
		net.setA(router(time.Millisecond))
		time.Sleep(10*time.Second + time.Millisecond)
		if got := rtt(); got != time.Millisecond {
			t.Errorf("returned server: average %v, want 1ms", got)
		}
		ms := time.Millisecond
		want := []time.Duration{0, 10010 * ms, 20070 * ms, 20070 * ms, 30070 * ms}
		if diff := cmp.Diff(want, net.asks("a:1")); diff != "" {
			t.Errorf("asked at (-want +got):\n%s", diff)
		}
	})
}

// A waiting selection makes the monitor ask every 500 ms, and goes on the
// moment the server is back.
func TestMonitorHurriesForWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFakeNet(map[string]*fakeServer{})
		view, stop := run(t, net, selection.MonitorOptions{}, "a:1")
		defer stop()
		time.Sleep(3 * time.Second) // nobody waits: one check
		time.AfterFunc(1200*time.Millisecond, func() { net.setA(router(20 * time.Millisecond)) })
		start := time.Now()
		picked, err := selection.New(view, selection.Options{}).Select(t.Context(), selection.Operation{})
		if err != nil {
			t.Fatal(err)
		}
		picked.Done()
		if got := time.Since(start); got != 1520*time.Millisecond {
			t.Errorf("selected after %v, want 1.5s for the third check and its 20ms", got)
		}
		ms := time.Millisecond
		want := []time.Duration{0, 3000 * ms, 3500 * ms, 4000 * ms, 4500 * ms}
		if diff := cmp.Diff(want, net.asks("a:1")); diff != "" {
			t.Errorf("asked at (-want +got):\n%s", diff)
		}
	})
}

// A request that comes while a server is being asked is not forgotten: the
// answer on its way may be older than what was seen.
func TestMonitorHearsRequestsDuringChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFakeNet(map[string]*fakeServer{"a:1": router(300 * time.Millisecond)})
		view, stop := run(t, net, selection.MonitorOptions{}, "a:1")
		defer stop()
		time.Sleep(100 * time.Millisecond)
		view.RequestCheck()
		time.Sleep(5 * time.Second)
		want := []time.Duration{0, 800 * time.Millisecond}
		if diff := cmp.Diff(want, net.asks("a:1")); diff != "" {
			t.Errorf("asked at (-want +got):\n%s", diff)
		}
	})
}

// Members that the primary names are watched, those it drops are not.
func TestMonitorFollowsTheSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		net := newFakeNet(map[string]*fakeServer{
			"a:1": {hello: member(labels.RolePrimary, "a:1", "b:1", "c:1")},
			"b:1": {hello: member(labels.RoleSecondary)},
		})
		view, stop := run(t, net, selection.MonitorOptions{Log: slog.New(slog.NewTextHandler(&out, nil))}, "a:1")
		time.Sleep(time.Second)
		if got, want := brief(view.Topology()), "ReplicaSetWithPrimary rs a:1=RSPrimary b:1=RSSecondary c:1=Unknown"; got != want {
			t.Errorf("topology %s, want %s", got, want)
		}
		net.setA(&fakeServer{hello: member(labels.RolePrimary, "a:1", "b:1")})
		time.Sleep(30 * time.Second)
		if got := len(net.asks("c:1")); got > 2 {
			t.Errorf("a member that was dropped was asked %d times in 30s, want at most 2", got)
		}
		stop()
		for _, want := range []string{`msg="server changed" server=a:1 before=Unknown now=RSPrimary`, `server=b:1 before=Unknown now=RSSecondary`} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("log lacks %q:\n%s", want, out.String())
			}
		}
	})
}

// What a server may answer instead of a hello, and what becomes of it.
func TestMonitorJudgesAnswers(t *testing.T) {
	reject := func(r labels.Reason) string {
		doc := labels.New(r, "orders", "default")
		return string(doc.AppendJSON(nil))
	}
	for name, tc := range map[string]struct {
		answer *fakeServer
		want   string
		is     error
	}{
		"not JSON":            {answer: &fakeServer{body: "<html>"}, want: "Unknown", is: labels.ErrNotHello},
		"too large":           {answer: &fakeServer{body: strings.Repeat(" ", labels.MaxHello+1)}, want: "Unknown", is: labels.ErrNotHello},
		"not found":           {answer: &fakeServer{status: 404}, want: "Unknown", is: selection.ErrHello},
		"draining":            {answer: &fakeServer{status: 503, body: reject(labels.Draining)}, want: "Unknown", is: selection.ErrHello},
		"hangs":               {answer: router(time.Hour), want: "Unknown", is: context.DeadlineExceeded},
		"too busy for hellos": {answer: &fakeServer{status: 429, body: reject(labels.RequestRate)}, want: "Mongos"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newFakeNet(map[string]*fakeServer{"a:1": router(0)})
				view, stop := run(t, net, selection.MonitorOptions{}, "a:1")
				defer stop()
				time.Sleep(time.Second)
				net.setA(tc.answer)
				time.Sleep(20*time.Second + time.Second)
				s := view.Topology().Servers[0]
				if got := s.Type.String(); got != tc.want || tc.is != nil && !errors.Is(s.Err, tc.is) {
					t.Errorf("server is %v, want %s because %v", s, tc.want, tc.is)
				}
			})
		})
	}
}

// Behind a balancer one answer says nothing about the next: it is never asked.
func TestMonitorLeavesBalancersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFakeNet(map[string]*fakeServer{})
		view, stop := run(t, net, selection.MonitorOptions{Seeds: selection.SeedOptions{LoadBalanced: true}}, "a:1")
		defer stop()
		time.Sleep(time.Minute)
		if _, err := selection.New(view, selection.Options{}).Select(t.Context(), nearest()); err != nil {
			t.Error(err)
		}
		if asks := net.asks("a:1"); len(asks) > 0 {
			t.Errorf("asked at %v, want never", asks)
		}
	})
}

func TestHeartbeatHasAFloor(t *testing.T) {
	for in, want := range map[time.Duration]time.Duration{0: 0, time.Millisecond: selection.MinHeartbeat, time.Minute: time.Minute} {
		if top := seeds(t, selection.SeedOptions{Heartbeat: in}, "a:1"); top.Every != want {
			t.Errorf("heartbeat %v became %v, want %v", in, top.Every, want)
		}
	}
}
