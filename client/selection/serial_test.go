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

func serial(t *testing.T, net *fakeNet, o selection.SerialOptions, addresses ...string) *selection.Serial {
	t.Helper()
	o.Check.Client = net.client()
	s, err := selection.NewSerial(addresses, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Try once: one scan, whatever the timeout says, then an error; the next
// selection scans again, but not before 500 ms have passed.
func TestSerialTriesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFakeNet(map[string]*fakeServer{})
		s := serial(t, net, selection.SerialOptions{}, "a:1", "b:1")
		for range 2 {
			if _, err := s.Select(t.Context(), selection.Operation{}); !errors.Is(err, errRefused) {
				t.Errorf("Select: %v, want refused", err)
			}
		}
		want := []time.Duration{0, 500 * time.Millisecond}
		if diff := cmp.Diff(want, net.asks("b:1")); diff != "" {
			t.Errorf("scans at (-want +got):\n%s", diff)
		}
	})
}

// A fresh picture that does not suffice is renewed once.
func TestSerialScansWhenNothingSuits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFakeNet(map[string]*fakeServer{"a:1": {hello: member(labels.RoleSecondary, "a:1")}})
		s := serial(t, net, selection.SerialOptions{}, "a:1")
		if _, err := s.Select(t.Context(), nearest()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		net.setA(&fakeServer{hello: member(labels.RolePrimary, "a:1")})
		picked, err := s.Select(t.Context(), selection.Operation{Write: true})
		if err != nil || picked.Server.Type != selection.RSPrimary {
			t.Errorf("Select = %v, %v; want the new primary", picked.Server, err)
		}
		want := []time.Duration{0, 2 * time.Second}
		if diff := cmp.Diff(want, net.asks("a:1")); diff != "" {
			t.Errorf("scans at (-want +got):\n%s", diff)
		}
	})
}

// Without try once it scans every 500 ms until a server suits or a further
// scan would be too late.
func TestSerialKeepsTrying(t *testing.T) {
	for name, tc := range map[string]struct {
		returns, wantAt time.Duration
		want            error
		scans           int
	}{
		"it returns":         {returns: 1700 * time.Millisecond, wantAt: 2 * time.Second, scans: 5},
		"it does not":        {returns: time.Hour, wantAt: 3 * time.Second, want: selection.ErrNoServer, scans: 7},
		"it returns at once": {returns: 0, wantAt: 0, scans: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newFakeNet(map[string]*fakeServer{})
				var out bytes.Buffer
				s := serial(t, net, selection.SerialOptions{
					KeepTrying: true,
					Options:    selection.Options{Timeout: 3 * time.Second, Log: slog.New(slog.NewTextHandler(&out, nil))},
				}, "a:1")
				if tc.returns == 0 {
					net.setA(router(0))
				}
				back := time.AfterFunc(tc.returns, func() { net.setA(router(0)) })
				defer back.Stop()
				start := time.Now()
				_, err := s.Select(t.Context(), selection.Operation{})
				if !errors.Is(err, tc.want) {
					t.Errorf("Select: %v, want %v", err, tc.want)
				}
				if got := time.Since(start); got != tc.wantAt {
					t.Errorf("took %v, want %v", got, tc.wantAt)
				}
				if got := len(net.asks("a:1")); got != tc.scans {
					t.Errorf("%d scans, want %d", got, tc.scans)
				}
				if got, want := strings.Count(out.String(), "Waiting for suitable server"), min(tc.scans-1, 1); got != want {
					t.Errorf("said %d times that it waits, want %d", got, want)
				}
			})
		})
	}
}

// A server unused for five seconds is asked before it is used; when it is
// gone, another is selected. One used in between is not asked.
func TestSerialChecksIdleServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFakeNet(map[string]*fakeServer{"a:1": router(0), "b:1": router(time.Second)})
		s := serial(t, net, selection.SerialOptions{}, "a:1", "b:1") // b is outside the latency window
		use := func(want string) {
			t.Helper()
			picked, err := s.Select(t.Context(), selection.Operation{})
			if err != nil || picked.Server.Address != want {
				t.Errorf("Select = %v, %v; want %s", picked.Server, err, want)
			}
			picked.Done()
		}
		use("a:1")
		time.Sleep(4900 * time.Millisecond)
		use("a:1") // used less than 5 s ago
		time.Sleep(4 * time.Second)
		net.setA(nil)
		use("a:1") // 4 s ago: its end goes unnoticed
		time.Sleep(1100 * time.Millisecond)
		start := time.Now()
		net.setA(router(0))
		use("a:1") // the heartbeat has passed: everyone is asked, b takes a second
		if got := time.Since(start); got != time.Second {
			t.Errorf("scan took %v, want 1s, all servers at the same time", got)
		}
		time.Sleep(5 * time.Second)
		use("a:1") // idle for 5 s: asked, still there
		time.Sleep(5*time.Second - time.Nanosecond)
		net.setA(nil)
		use("a:1") // a nanosecond short of idle
	})
}

func TestSerialReplacesIdleServerThatIsGone(t *testing.T) {
	for name, change := range map[string]*fakeServer{
		"gone":            nil,
		"no longer suits": {hello: member(labels.RoleArbiter)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newFakeNet(map[string]*fakeServer{
					"a:1": {hello: member(labels.RoleSecondary)}, "b:1": {hello: member(labels.RoleSecondary), takes: time.Second},
				})
				s := serial(t, net, selection.SerialOptions{}, "a:1", "b:1")
				if picked, err := s.Select(t.Context(), nearest()); err != nil || picked.Server.Address != "a:1" {
					t.Fatalf("Select = %v, %v; want a:1", picked.Server, err)
				}
				time.Sleep(5 * time.Second)
				net.setA(change)
				picked, err := s.Select(t.Context(), nearest())
				if err != nil || picked.Server.Address != "b:1" {
					t.Errorf("Select = %v, %v; want b:1", picked.Server, err)
				}
				if got, want := len(net.asks("b:1")), 1; got != want {
					t.Errorf("b was asked %d times, want %d: one scan was enough", got, want)
				}
			})
		})
	}
}

// Seeds that are none are an error, as for every selector.
func TestSerialSeedsRefused(t *testing.T) {
	if s, err := selection.NewSerial(nil, selection.SerialOptions{}); s != nil || !errors.Is(err, selection.ErrSeeds) {
		t.Errorf("NewSerial(nil) = %v, %v; want ErrSeeds", s, err)
	}
}

// An idle server that is still there is kept: it was drawn, and is not drawn for again.
func TestSerialKeepsAnIdleServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFakeNet(map[string]*fakeServer{"a:1": router(0), "b:1": router(0)})
		draws := 0
		o := selection.SerialOptions{Options: selection.Options{Rand: func() uint64 { draws++; return 0 }}}
		s := serial(t, net, o, "a:1", "b:1")
		for i := range 2 {
			picked, err := s.Select(t.Context(), selection.Operation{})
			if err != nil || draws != i+1 {
				t.Fatalf("Select = %v, %v after %d draws; want %d", picked.Server, err, draws, i+1)
			}
			picked.Done()
			time.Sleep(5 * time.Second)
		}
		if asks := len(net.asks("a:1")) + len(net.asks("b:1")); asks != 3 {
			t.Errorf("%d checks; want one scan of both, and one of the idle server", asks)
		}
	})
}

// After a selection that failed for what the servers are, the next one asks them again.
func TestSerialScansAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, mended := router(0), router(0)
		old.hello.MinWireVersion, old.hello.MaxWireVersion = 30, 31
		net := newFakeNet(map[string]*fakeServer{"a:1": old})
		s := serial(t, net, selection.SerialOptions{Options: selection.Options{}, Seeds: selection.SeedOptions{Wire: selection.WireRange{Min: 6, Max: 25}}}, "a:1")
		if picked, err := s.Select(t.Context(), selection.Operation{}); err == nil {
			t.Fatalf("Select = %v; want an error of versions", picked.Server)
		}
		net.setA(mended)
		time.Sleep(time.Second)
		if picked, err := s.Select(t.Context(), selection.Operation{}); err != nil {
			t.Errorf("Select = %v, %v; want the server that was mended", picked.Server, err)
		}
	})
}

// A server that hangs costs a scan its check timeout, once, and the context
// ends a scan.
func TestSerialScanIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFakeNet(map[string]*fakeServer{"a:1": router(time.Hour), "b:1": router(time.Hour)})
		s := serial(t, net, selection.SerialOptions{Check: selection.CheckOptions{Timeout: 2 * time.Second}}, "a:1", "b:1")
		start := time.Now()
		if _, err := s.Select(t.Context(), selection.Operation{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Select: %v, want DeadlineExceeded of the check", err)
		}
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("took %v, want 2s", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Select(ctx, selection.Operation{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Select: %v, want DeadlineExceeded", err)
		}
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("second selection ended at %v, want 3s, with its context", got)
		}
	})
}
