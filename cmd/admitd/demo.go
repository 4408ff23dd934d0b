package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/admitd/admitd/admin"
	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/lab"
)

// The demo's backend and load.
const (
	demoWorkers   = 4
	demoService   = 10 * time.Millisecond
	demoCapacity  = float64(demoWorkers) / 0.010 // requests per second
	demoThrash    = 0.002                        // slower per request inside beyond the workers
	demoObjective = 100 * time.Millisecond
	demoTimeout   = time.Second
	demoRefresh   = 200 * time.Millisecond
)

// demoOptions are the flags of demo.
type demoOptions struct {
	length   time.Duration
	listen   string
	admin    string
	protocol string
	load     float64
}

// newDemo returns the command that shows what admitd is for.
func newDemo(s streams) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Overload a small backend, without the gate and behind it",
		Long: fmt.Sprintf(`Starts a small backend that can serve exactly %.0f requests per second and sends
it several times as many, open loop: after a calm moment first with the gate
off, then with the gate on and two kinds of client. The backend is restarted between the parts,
since it would not recover by itself. A table at the end says what came of it. Nothing is downloaded and nothing is
left behind. While it runs the admin port shows the live page.

--protocol pulsar shows what only a queue has: two producers on one connection,
one of them over its rate, and what that costs the other.`, demoCapacity),
		Example: "  admitd demo\n  admitd demo --for 30s --load 8\n  admitd demo --protocol mongodb",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), s, o) },
	}
	f := cmd.Flags()
	f.DurationVar(&o.length, "for", 20*time.Second, "how long the whole demo runs, at least 6s")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8462", "address of the gate; port 0 takes a free one")
	f.StringVar(&o.admin, "admin", "127.0.0.1:9462", "address of the admin port; port 0 takes a free one")
	f.StringVar(&o.protocol, "protocol", "http", "http, mongodb or pulsar")
	f.Float64Var(&o.load, "load", 4, "offered load as a multiple of the backend's capacity")
	return cmd
}

// leg is one part of the demo.
type leg struct {
	name   string
	mode   string  // of the gate
	load   float64 // as a multiple of the capacity
	share  float64 // of the demo's length
	second bool    // sent by the second kind of client
	tally  *lab.Tally
}

// demoTarget is what the demo does in one protocol.
type demoTarget interface {
	// Start runs the backend until ctx is done and returns its address as a
	// configuration writes it.
	Start(ctx context.Context) (backend string, err error)
	// Restart empties the backend, as if it had been restarted.
	Restart()
	// Clients names the parts that two kinds of client play in overload.
	Clients() (first, second string)
	// Client returns a sender of the first or second kind that talks to the
	// gate, and what closes it.
	Client(ctx context.Context, gate string, second bool) (send func(context.Context) lab.Sent, stop func(), err error)
}

// demo runs the whole demo.
func demo(ctx context.Context, s streams, o demoOptions) error {
	if o.length < 6*time.Second || o.load <= 0 || o.load > 100 {
		return fmt.Errorf("demo: --for must be at least 6s and --load in (0, 100] (%v, %v)", o.length, o.load)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.protocol == "pulsar" {
		return demoQueue(ctx, s, o)
	}
	target, err := newDemoTarget(o.protocol)
	if err != nil {
		return err
	}
	backend, err := target.Start(ctx)
	if err != nil {
		return err
	}
	d, stop, err := startDemoDaemon(ctx, s, o, fmt.Sprintf(`"backend": %q, "mode": "off",
		"partitions": {"default": {"limit": {"algorithm": "gradient", "initialLimit": 10, "minLimit": 6}}}`, backend))
	if err != nil {
		return err
	}
	defer stop()
	gate := d.front("demo").ln.Addr().String()
	fmt.Fprintf(s.out, "backend %s: %d workers, %v each, so at most %.0f requests/s\n", o.protocol, demoWorkers, demoService, demoCapacity)
	fmt.Fprintf(s.out, "load    %.0f requests/s (%gx), each given up after %v; good: the attempt that was served took at most %v\n\n", o.load*demoCapacity, o.load, demoTimeout, demoObjective)

	third, fourth := target.Clients()
	legs := []*leg{
		{name: "calm, gate on", mode: "enforce", load: 0.5, share: 0.13},
		{name: "overload, gate off", mode: "off", load: o.load, share: 0.29},
		{name: third, mode: "enforce", load: o.load, share: 0.29},
		{name: fourth, mode: "enforce", load: o.load, share: 0.29, second: true},
	}
	for _, l := range legs {
		if err := runLeg(ctx, s.out, d, o, l, gate, target); err != nil {
			return err
		}
	}
	printDemo(s.out, legs)
	return nil
}

// startDemoDaemon runs the daemon on a built-in configuration, with the given
// settings of its one ingress.
func startDemoDaemon(ctx context.Context, s streams, o demoOptions, settings string) (*daemon, func(), error) {
	for _, address := range []*string{&o.listen, &o.admin} {
		if busy(ctx, *address) {
			host, _, _ := net.SplitHostPort(*address)
			fmt.Fprintf(s.err, "%s is in use, taking a free port instead\n", *address)
			*address = net.JoinHostPort(host, "0")
		}
	}
	text := fmt.Sprintf(`{"log": {"level": "error", "format": "text"}, "admin": {"listen": %q}, "ingresses": [{"name": "demo",
		"protocol": %q, "listen": %q, "drainTimeout": "1s", %s}]}`, o.admin, o.protocol, o.listen, settings)
	cfg, err := config.Parse("demo", []byte(text), nil)
	if err != nil {
		return nil, nil, err
	}
	d, err := newDaemon(s, "", cfg, nil)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx, cfg, config.Hash{}) }()
	select {
	case err := <-ended:
		cancel()
		return nil, nil, err
	case <-d.up:
	}
	stop := func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Fprintln(s.err, err)
		}
	}
	return d, stop, nil
}

// busy reports whether nobody can listen on the address now.
func busy(ctx context.Context, address string) bool {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return true
	}
	_ = ln.Close()
	return false
}

// runLeg plays one part and prints a live line.
func runLeg(ctx context.Context, out io.Writer, d *daemon, o demoOptions, l *leg, gate string, target demoTarget) error {
	if _, _, err := d.Patch(ctx, "demo", admin.Patch{Mode: &l.mode}); err != nil {
		return err
	}
	target.Restart() // the part before may have left work that nobody waits for
	send, stop, err := target.Client(ctx, gate, l.second)
	if err != nil {
		return err
	}
	defer stop()
	l.tally = lab.NewTally(demoObjective)
	length := time.Duration(l.share * float64(o.length))
	load := lab.OpenLoop{
		Rate: l.load * demoCapacity, For: length, WarmUp: length / 4,
		Timeout: demoTimeout, Objective: demoObjective, Seed: 1, Send: send,
	}
	done := make(chan struct{})
	go func() { defer close(done); load.Run(ctx, l.tally) }()
	live := liveLine(out)
	start, ticker := time.Now(), time.NewTicker(live.every)
	defer ticker.Stop()
	for last := (lab.TallySnapshot{}); ; {
		select {
		case <-done:
			fmt.Fprint(out, live.begin)
			return ctx.Err()
		case <-ticker.C:
		}
		now := l.tally.Snapshot()
		per := 1 / live.every.Seconds()
		st := d.front("demo").gate.Status()
		fmt.Fprintf(out, live.begin+"%-22s %5.1fs  good %4.0f/s  refused %4.0f/s  failed %4.0f/s  limit %3d  in flight %4d  p99 %v"+live.end,
			l.name, time.Since(start).Seconds(), float64(now.Good-last.Good)*per, float64(now.Refused-last.Refused)*per,
			float64(now.Failed-last.Failed)*per, st.Partitions[0].Limit, st.InFlight, l.tally.Quantile(0.99).Round(time.Millisecond))
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
		fmt.Fprintf(w, "%s\t%.0f\t%.0f %%\t%v\t%v\t%.0f %%\t%.0f %%\t%.0f %%\t%.2f\t\n", l.name, l.tally.Goodput(), 100*l.tally.Goodput()/demoCapacity,
			l.tally.Quantile(0.5).Round(time.Millisecond), l.tally.Quantile(0.99).Round(time.Millisecond),
			100*float64(s.Answered)/total, 100*float64(s.Refused)/total, 100*float64(s.Failed)/total, l.tally.AttemptsPerRequest())
	}
	_ = w.Flush() // a demo that cannot print has nobody to tell
	for _, l := range legs {
		if l.tally.Void() {
			fmt.Fprintf(out, "\n%s: this machine was too busy to send on schedule; its figures prove nothing\n", l.name)
		}
	}
}
