// Package demo shows what admitd is for: it overloads a small model backend,
// without the gate and behind it, and prints what came of it.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/lab/openloop"
)

// The demo's backend and load.
const (
	demoWorkers   = 4
	demoService   = 10 * time.Millisecond
	Capacity      = float64(demoWorkers) / 0.010 // requests per second
	demoThrash    = 0.002                        // slower per request inside beyond the workers
	demoObjective = 100 * time.Millisecond
	demoTimeout   = time.Second
	demoRefresh   = 200 * time.Millisecond
)

// Options of the demo.
type Options struct {
	For      time.Duration // how long the whole demo runs, at least 6 s
	Listen   string        // address of the gate; port 0 takes a free one
	Admin    string        // address of the admin port; port 0 takes a free one
	Protocol string        // one of [Protocols]
	Load     float64       // offered load as a multiple of the backend's capacity
	Real     bool          // a real PostgreSQL server of this machine instead of a model
	Version  string        // of this program
}

// Protocols lists the protocols that have a demo.
func Protocols() []string { return []string{"http", "mongodb", "postgres", "pulsar"} }

// streams are where the demo writes.
type streams struct{ out, err io.Writer }

// target is what the demo does in one protocol.
type target interface {
	// Start runs the backend until ctx is done and returns its address as a
	// configuration writes it.
	Start(ctx context.Context) (backend string, err error)
	// Restart empties the backend, as if it had been restarted.
	Restart()
	// Clients names the parts that two kinds of client play in overload.
	Clients() (first, second string)
	// Client returns a sender of the first or second kind that talks to the
	// gate, and what closes it.
	Client(ctx context.Context, gate string, second bool) (send func(context.Context) openloop.Sent, stop func(), err error)
}

// Run plays the whole demo and writes what happens to out, and what is wrong to
// problems.
func Run(ctx context.Context, out, problems io.Writer, o Options) error {
	s := streams{out, problems}
	switch {
	case o.For < 6*time.Second || !(o.Load > 0 && o.Load <= 100): // nor is it NaN
		return fmt.Errorf("demo: --for must be at least 6s and --load in (0, 100] (%v, %v)", o.For, o.Load)
	case o.Real && o.Protocol != "postgres":
		return fmt.Errorf("demo: --real is for --protocol postgres (%s)", o.Protocol)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.Protocol == "pulsar" {
		return demoQueue(ctx, s, o)
	}
	t, err := newTarget(&o)
	if err != nil {
		return err
	}
	if s, ok := t.(interface{ Stop() }); ok {
		defer s.Stop()
		defer cancel()
	}
	backend, err := t.Start(ctx)
	if err != nil {
		return err
	}
	d, stop, err := startDaemon(ctx, s, o, fmt.Sprintf(`"backend": %q, "mode": "off"%s`, backend, more(t)))
	if err != nil {
		return err
	}
	defer stop()
	tellPage(s, d)
	sh := show{Options: o, out: s.out, d: d, gate: d.Address("demo").String(), target: t}
	return sh.run(ctx)
}

// more returns the settings that a target has of its own.
func more(t target) string {
	if own, ok := t.(interface{ Settings() string }); ok {
		return own.Settings()
	}
	return ""
}

// startDaemon runs the daemon on a built-in configuration, with the given
// settings of its one ingress.
func startDaemon(ctx context.Context, s streams, o Options, settings string) (*daemon.Daemon, func(), error) {
	for _, address := range []*string{&o.Listen, &o.Admin} {
		if busy(ctx, *address) {
			host, _, _ := net.SplitHostPort(*address)
			fmt.Fprintf(s.err, "%s is in use, taking a free port instead\n", *address)
			*address = net.JoinHostPort(host, "0")
		}
	}
	text := fmt.Sprintf(`{"log": {"level": "error", "format": "text"}, "admin": {"listen": %q}, "ingresses": [{"name": "demo",
		"protocol": %q, "listen": %q, "drainTimeout": "1s", %s}]}`, o.Admin, o.Protocol, o.Listen, settings)
	cfg, err := config.Parse("demo", []byte(text), nil)
	if err != nil {
		return nil, nil, err
	}
	d, err := daemon.New(cfg, daemon.Options{Version: o.Version, Log: s.err})
	if err != nil {
		return nil, nil, err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(running) }()
	select {
	case err := <-ended:
		cancel()
		return nil, nil, err
	case <-d.Up():
	}
	stop := func() {
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil { // else the demo was interrupted in the middle of work
			fmt.Fprintln(s.err, err)
		}
	}
	return d, stop, nil
}

// tellPage says where the demo can be watched.
func tellPage(s streams, d *daemon.Daemon) {
	fmt.Fprintf(s.out, "live page http://%s/\n", d.AdminAddress())
}

// busy reports whether somebody else listens on the address. What else may be
// wrong with it is for the daemon to say.
func busy(ctx context.Context, address string) bool {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return errors.Is(err, syscall.EADDRINUSE)
	}
	_ = ln.Close()
	return false
}
