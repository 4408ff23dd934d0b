// Command bounds does to a running admitd what hostile or unlucky clients and
// backends do, and measures what that costs in memory and goroutines, and
// whether other traffic notices. It prints the table of docs/limits.md.
//
//	go run . -admitd ../../bin/admitd
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// options say how much is done.
type options struct {
	admitd string        // the binary
	keys   int           // distinct partition keys
	idle   int           // idle connections
	loris  int           // connections that send a byte now and then
	bodies int           // oversized headers and bodies, each
	burst  int           // concurrent requests to a bad backend
	storm  time.Duration // how long they go on
	only   string        // name of the one case to run
}

func main() {
	o := options{}
	flag.StringVar(&o.admitd, "admitd", "../../bin/admitd", "the binary to measure")
	flag.IntVar(&o.keys, "keys", 1_000_000, "distinct partition keys")
	flag.IntVar(&o.idle, "idle", 10_000, "idle connections")
	flag.IntVar(&o.loris, "loris", 2_000, "slow-loris connections")
	flag.IntVar(&o.bodies, "bodies", 200, "oversized headers and bodies, each")
	flag.IntVar(&o.burst, "burst", 1_000, "concurrent requests to each bad backend")
	flag.DurationVar(&o.storm, "storm", 5*time.Second, "how long they go on")
	flag.StringVar(&o.only, "only", "", "part of the name of the cases to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	results, err := run(ctx, o)
	if err := errors.Join(err, report(os.Stdout, results)); err != nil {
		fmt.Fprintln(os.Stderr, "bounds:", err)
		os.Exit(1)
	}
}

// result is what one case came to.
type result struct {
	name, outcome                  string
	rssBefore, rssPeak, rssAfter   int64 // bytes
	goroutinesPeak, goroutinesLeft int
	others                         tally // other traffic, meanwhile
}

// run plays every case, each against a daemon of its own.
func run(ctx context.Context, o options) ([]result, error) {
	var results []result
	for _, c := range cases(o) {
		if !strings.Contains(c.name, o.only) {
			continue
		}
		r, err := play(ctx, o.admitd, c)
		if err != nil {
			return results, fmt.Errorf("%s: %w", c.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// play runs one case.
func play(ctx context.Context, binary string, c scenario) (result, error) {
	b, err := startBackend(ctx)
	if err != nil {
		return result{}, err
	}
	defer b.stop()
	d, err := startDaemon(ctx, binary, fmt.Sprintf(configuration, b.good, b.bad, c.extra))
	if err != nil {
		return result{}, err
	}
	defer d.kill()
	b.be(c.backend)
	r := result{name: c.name, rssBefore: d.rss()}
	w := watch(ctx, d)
	r.outcome, err = c.do(ctx, d)
	w.stop()
	r.rssPeak, r.goroutinesPeak, r.others = w.rss, w.goroutines, w.others
	if err != nil {
		return r, err
	}
	r.rssAfter, r.goroutinesLeft = d.settled(ctx)
	if err := d.stop(); err != nil {
		return r, err
	}
	return r, nil
}

// report prints the table in Markdown.
func report(out io.Writer, results []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', tabwriter.TabIndent)
	fmt.Fprintln(w, "| what \t| what came of it \t| RSS before, peak, after (MiB) \t| goroutines peak, after \t| other traffic \t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|")
	for _, r := range results {
		fmt.Fprintf(w, "| %s \t| %s \t| %d, %d, %d \t| %d, %d \t| %s \t|\n", r.name, r.outcome, mib(r.rssBefore), mib(r.rssPeak), mib(r.rssAfter),
			r.goroutinesPeak, r.goroutinesLeft, r.others)
	}
	return w.Flush()
}

// mib rounds up.
func mib(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// tally counts requests of other traffic.
type tally struct {
	ok, failed int
	times      []float64 // milliseconds
}

// String summarises.
func (t tally) String() string {
	if len(t.times) == 0 {
		return "none"
	}
	slices.Sort(t.times)
	return fmt.Sprintf("%d served, %d failed, p50 %.1f ms, p99 %.1f ms", t.ok, t.failed, t.times[len(t.times)/2], t.times[len(t.times)*99/100])
}
