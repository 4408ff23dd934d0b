package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/testkit/configured"
)

// opened returns a listener on a free port.
func opened(t *testing.T) net.Listener {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// listening runs a daemon on ingresses, each a name and an address, and returns what
// puts others in force.
func listening(t *testing.T, o daemon.Options, first ...string) (d *daemon.Daemon, put func(pairs ...string) error) {
	t.Helper()
	config := func(pairs []string) string {
		var list []string
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, fmt.Sprintf(`{ name: %s, listen: %q, backend: "http://127.0.0.1:1" }`, pairs[i], pairs[i+1]))
		}
		return "admin: { listen: 127.0.0.1:0 }\ningresses: [" + strings.Join(list, ", ") + "]"
	}
	d, err := daemon.New(configured.From(t, config(first)), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	select {
	case <-d.Up():
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return d, func(pairs ...string) error { return d.Apply(t.Context(), configured.From(t, config(pairs))) }
}

// A socket that was open before the daemon began is still there after a
// configuration that was to use it was refused: nobody can open it again.
func TestInheritedSocketsOutliveARefusal(t *testing.T) {
	given, taken := opened(t), opened(t)
	d, put := listening(t, daemon.Options{Sockets: map[string][]net.Listener{"given": {given}}}, "a", "127.0.0.1:0")
	if err := put("given", "127.0.0.1:0", "b", taken.Addr().String()); err == nil {
		t.Fatal("an address that is in use was listened on")
	}
	if err := put("given", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if got, want := d.Address("given").String(), given.Addr().String(); got != want {
		t.Errorf("listens on %s; want the socket that was given, %s", got, want)
	}
	c, err := net.Dial("tcp", given.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// An address that overlaps with the one before is in use by the daemon itself, which
// the error says: operators looked for another process.
func TestOverlappingAddresses(t *testing.T) {
	d, put := listening(t, daemon.Options{}, "a", "127.0.0.1:0")
	before := d.Address("a").String()
	_, port, _ := net.SplitHostPort(before)
	err := put("a", "0.0.0.0:"+port)
	if err == nil || !strings.Contains(err.Error(), "ingress a listens on "+before) || !strings.Contains(err.Error(), "restart") {
		t.Errorf("error %v; want who listens there", err)
	}
	taken := opened(t).Addr().String()
	if err := put("a", taken); err == nil || strings.Contains(err.Error(), "restart") {
		t.Errorf("error %v; want that somebody else listens there", err)
	}
	if got := d.Address("a").String(); got != before {
		t.Errorf("listens on %s; want it to stay on %s", got, before)
	}
}

// A daemon that is stopped while it asks a backend what it is does not serve first,
// and a change for which nobody waits any more is not put in force: nobody knows yet
// whether clients could walk around its gate.
func TestNothingIsPutInForceUnasked(t *testing.T) {
	silent := opened(t)
	const alone = "admin: { listen: 127.0.0.1:0 }\ningresses: [{ name: a, listen: 127.0.0.1:0, backend: 'http://127.0.0.1:1' }"
	waits := configured.From(t, alone+fmt.Sprintf(", { name: db, protocol: mongodb, listen: 127.0.0.1:0, backend: %q }]", silent.Addr()))
	asked := func(put func(ctx context.Context) error) error {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if c, err := silent.Accept(); err == nil {
				defer c.Close()
				cancel()
				<-t.Context().Done() // it says nothing
			}
		}()
		return put(ctx)
	}
	d, err := daemon.New(waits, daemon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := asked(d.Run); err != nil {
		t.Errorf("Run = %v; want a daemon that was stopped", err)
	}
	select {
	case <-d.Up():
		t.Error("it served before it was stopped")
	default:
	}
	d, _ = listening(t, daemon.Options{}, "a", "127.0.0.1:0")
	if err := asked(func(ctx context.Context) error { return d.Apply(ctx, waits) }); !errors.Is(err, context.Canceled) {
		t.Errorf("Apply = %v; want that nobody waits for it", err)
	}
	if d.Gate("db") != nil {
		t.Error("an ingress runs of which the backend was not asked")
	}
}
