package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/lab/openloop"
)

// show is the demo of a target, behind a daemon that runs.
type show struct {
	Options

	target target
	d      *daemon.Daemon
	gate   string // its address
	out    io.Writer
}

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

// run plays every part and prints what came of it.
func (s *show) run(ctx context.Context) error {
	if b, ok := s.target.(interface{ Backend() string }); ok {
		fmt.Fprintf(s.out, "backend %s\n", b.Backend())
	}
	fmt.Fprintf(s.out, "backend %s: %d workers, %v each, so at most %.0f requests/s\n", s.Protocol, demoWorkers, demoService, Capacity)
	fmt.Fprintf(s.out, "load    %.0f requests/s (%gx), each given up after %v; good: the attempt that was served took at most %v\n\n", s.Load*Capacity, s.Load, demoTimeout, demoObjective)

	third, fourth := s.target.Clients()
	legs := []*leg{
		{name: "calm, gate on", mode: "enforce", load: 0.5, share: 0.13},
		{name: "overload, gate off", mode: "off", load: s.Load, share: 0.29},
		{name: third, mode: "enforce", load: s.Load, share: 0.29},
		{name: fourth, mode: "enforce", load: s.Load, share: 0.29, second: true},
	}
	for _, l := range legs {
		if err := s.play(ctx, l); err != nil {
			return err
		}
	}
	printDemo(s.out, legs)
	return nil
}

// play plays one part and prints a live line.
func (s *show) play(ctx context.Context, l *leg) error {
	if _, _, err := s.d.Patch(ctx, "demo", admin.Patch{Settings: fmt.Appendf(nil, `{"mode":%q}`, l.mode)}); err != nil {
		return err
	}
	s.target.Restart() // the part before may have left work that nobody waits for
	if m, ok := s.target.(interface{ Mix(perSecond float64) }); ok {
		m.Mix(l.load * Capacity)
	}
	send, stop, err := s.target.Client(ctx, s.gate, l.second)
	if err != nil {
		return err
	}
	defer stop()
	l.tally = openloop.NewTally(demoObjective)
	length := time.Duration(l.share * float64(s.For))
	load := openloop.Load{
		Rate: l.load * Capacity, For: length, WarmUp: length / 4,
		Timeout: demoTimeout, Objective: demoObjective, Seed: 1, Send: send,
	}
	done := make(chan struct{})
	go func() { defer close(done); load.Run(ctx, l.tally) }()
	s.follow(l, done)
	if m, ok := s.target.(interface{ Tenants() string }); ok {
		l.tenants = m.Tenants()
	}
	return ctx.Err()
}

// follow prints the live line of a part until it is done.
func (s *show) follow(l *leg, done <-chan struct{}) {
	live := liveLine(s.out)
	start, ticker := time.Now(), time.NewTicker(live.every)
	defer ticker.Stop()
	for last := (openloop.Snapshot{}); ; {
		select {
		case <-done:
			fmt.Fprint(s.out, live.begin)
			return
		case <-ticker.C:
		}
		now := l.tally.Snapshot()
		per := 1 / live.every.Seconds()
		st, limit := s.d.Gate("demo").Status(), 0
		for i := range st.Partitions {
			if p := &st.Partitions[i]; p.Counts.Received() > 0 { // else nobody uses its limit
				limit += p.Limit
			}
		}
		fmt.Fprintf(s.out, live.begin+"%-22s %5.1fs  good %4.0f/s  refused %4.0f/s  failed %4.0f/s  limit %3d  in flight %4d  p99 %v"+live.end,
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
