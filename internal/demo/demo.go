// Package demo shows what admitd is for: it overloads a small model backend,
// without the gate and behind it, and prints what came of it.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/admitd/admitd/admin"
	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/daemon"
	"github.com/admitd/admitd/lab/openloop"
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

// leg is one part of the demo.
type leg struct {
	name   string
	mode   string  // of the gate
	load   float64 // as a multiple of the capacity
	share  float64 // of the demo's length
	second bool    // sent by the second kind of client
	tally  *openloop.Tally
	// tenants says how many of each tenant's requests were served; "" = there
	// are none.
	tenants string
}

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
	gate := d.Address("demo").String()
	tellPage(s, d)
	if b, ok := t.(interface{ Backend() string }); ok {
		fmt.Fprintf(s.out, "backend %s\n", b.Backend())
	}
	fmt.Fprintf(s.out, "backend %s: %d workers, %v each, so at most %.0f requests/s\n", o.Protocol, demoWorkers, demoService, Capacity)
	fmt.Fprintf(s.out, "load    %.0f requests/s (%gx), each given up after %v; good: the attempt that was served took at most %v\n\n", o.Load*Capacity, o.Load, demoTimeout, demoObjective)

	third, fourth := t.Clients()
	legs := []*leg{
		{name: "calm, gate on", mode: "enforce", load: 0.5, share: 0.13},
		{name: "overload, gate off", mode: "off", load: o.Load, share: 0.29},
		{name: third, mode: "enforce", load: o.Load, share: 0.29},
		{name: fourth, mode: "enforce", load: o.Load, share: 0.29, second: true},
	}
	for _, l := range legs {
		if err := runLeg(ctx, s.out, d, o, l, gate, t); err != nil {
			return err
		}
	}
	printDemo(s.out, legs)
	return nil
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

// runLeg plays one part and prints a live line.
func runLeg(ctx context.Context, out io.Writer, d *daemon.Daemon, o Options, l *leg, gate string, t target) error {
	if _, _, err := d.Patch(ctx, "demo", admin.Patch{Mode: &l.mode}); err != nil {
		return err
	}
	t.Restart() // the part before may have left work that nobody waits for
	if m, ok := t.(interface{ Mix(perSecond float64) }); ok {
		m.Mix(l.load * Capacity)
	}
	send, stop, err := t.Client(ctx, gate, l.second)
	if err != nil {
		return err
	}
	defer stop()
	l.tally = openloop.NewTally(demoObjective)
	length := time.Duration(l.share * float64(o.For))
	load := openloop.Load{
		Rate: l.load * Capacity, For: length, WarmUp: length / 4,
		Timeout: demoTimeout, Objective: demoObjective, Seed: 1, Send: send,
	}
	done := make(chan struct{})
	go func() { defer close(done); load.Run(ctx, l.tally) }()
	live := liveLine(out)
	start, ticker := time.Now(), time.NewTicker(live.every)
	defer ticker.Stop()
	for last := (openloop.Snapshot{}); ; {
		select {
		case <-done:
			fmt.Fprint(out, live.begin)
			if m, ok := t.(interface{ Tenants() string }); ok {
				l.tenants = m.Tenants()
			}
			return ctx.Err()
		case <-ticker.C:
		}
		now := l.tally.Snapshot()
		per := 1 / live.every.Seconds()
		st, limit := d.Gate("demo").Status(), 0
		for i := range st.Partitions {
			if p := &st.Partitions[i]; p.Counts.Received() > 0 { // else nobody uses its limit
				limit += p.Limit
			}
		}
		fmt.Fprintf(out, live.begin+"%-22s %5.1fs  good %4.0f/s  refused %4.0f/s  failed %4.0f/s  limit %3d  in flight %4d  p99 %v"+live.end,
			l.name, time.Since(start).Seconds(), float64(now.Good-last.Good)*per, float64(now.Refused-last.Refused)*per,
			float64(now.Failed-last.Failed)*per, limit, st.InFlight, l.tally.Quantile(0.99).Round(time.Millisecond))
		last = now
	}
}

// display is how a line that changes is written.
type display struct {
	begin, end string
	every      time.Duration
}

// liveLine rewrites one line on a terminal, and elsewhere writes one every two
// seconds.
func liveLine(out io.Writer) display {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return display{begin: "\r\033[K", every: demoRefresh}
	}
	return display{end: "\n", every: 2 * time.Second}
}

// printDemo prints what came of it.
func printDemo(out io.Writer, legs []*leg) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tgood/s\tof capacity\tp50\tp99\tserved\trefused\tfailed\tattempts/request\t")
	for _, l := range legs {
		s := l.tally.Snapshot()
		total := float64(max(s.Answered+s.Refused+s.Failed, 1))
		fmt.Fprintf(w, "%s\t%.0f\t%.0f %%\t%v\t%v\t%.0f %%\t%.0f %%\t%.0f %%\t%.2f\t\n", l.name, l.tally.Goodput(), 100*l.tally.Goodput()/Capacity,
			l.tally.Quantile(0.5).Round(time.Millisecond), l.tally.Quantile(0.99).Round(time.Millisecond),
			100*float64(s.Answered)/total, 100*float64(s.Refused)/total, 100*float64(s.Failed)/total, l.tally.AttemptsPerRequest())
	}
	_ = w.Flush() // a demo that cannot print has nobody to tell
	for _, l := range legs {
		if l.tenants != "" {
			fmt.Fprintf(out, "served of each, %s: %s\n", l.name, l.tenants)
		}
	}
	fmt.Fprintln(out)
	for _, l := range legs {
		if l.tally.Void() {
			fmt.Fprintf(out, "%s: this machine was too busy to send on schedule; its figures prove nothing\n", l.name)
		}
	}
	fmt.Fprint(out, `Trust good/s and served, one row against the other. Latencies are this machine's too: on a busy one they say little.
Next: admitd demo backend is a backend to try, admitd check FILE says what is wrong with a configuration, admitd serve FILE runs it.
`)
}
