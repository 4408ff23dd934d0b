// Wire compares the gates of wire protocols with proxies that only copy: the same
// clients, the same backend, one after the other in interleaved rounds.
//
//	wire -admitd bin/admitd -copyproxy bin/copyproxy [-protocols mongodb,postgres] [-conns 8,64,512] [-for 1s] [-rounds 5] [-idle 10000] [-other BINARY]
//
// Everything runs on the loopback and is bounded in time. It is also the backend
// that it starts (-model mongodb -listen ADDRESS), and a client that loads what
// runs already (-drive ADDRESS).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/admitd/admitd/bench/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wire:", err)
		os.Exit(1)
	}
}

// run does what the arguments say.
func run(ctx context.Context, args []string) error {
	c := &comparison{out: os.Stdout}
	fs := flag.NewFlagSet("wire", flag.ContinueOnError)
	model := fs.String("model", "", "be the backend of this protocol, and nothing else")
	listen := fs.String("listen", "127.0.0.1:0", "address of the backend")
	drive := fs.String("drive", "", "load what listens on this address, and nothing else")
	protocols := fs.String("protocols", "mongodb,postgres", "what to measure")
	conns := fs.String("conns", "8,64,512", "numbers of connections")
	procs := fs.String("procs", "", "measure further gates with these GOMAXPROCS")
	others := fs.String("other", "", "further builds of the gate to measure")
	fs.StringVar(&c.admitd, "admitd", "bin/admitd", "the binary to measure")
	fs.StringVar(&c.copyproxy, "copyproxy", "bin/copyproxy", "the proxy that only copies")
	fs.DurationVar(&c.round, "for", time.Second, "length of one measurement")
	fs.IntVar(&c.rounds, "rounds", 5, "rounds; the median counts")
	fs.IntVar(&c.idle, "idle", 10_000, "idle connections, as many as descriptors allow; 0 = do not measure them")
	fs.DurationVar(&c.settle, "settle", 15*time.Second, "how long idle connections are idle when their memory is measured; what a Go program gave up the runtime returns within 2m10s, the gate within 15 s")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *model != "" {
		return serveModel(ctx, *model, *listen)
	}
	for n := range strings.SplitSeq(*conns, ",") {
		v, err := strconv.Atoi(n)
		if err != nil || v <= 0 {
			return fmt.Errorf("-conns %q: want numbers above 0", *conns)
		}
		c.conns = append(c.conns, v)
	}
	if *procs != "" {
		c.procs = strings.Split(*procs, ",")
	}
	if *others != "" {
		c.others = strings.Split(*others, ",")
	}
	if *drive != "" {
		return c.drive(ctx, *drive, *protocols)
	}
	return c.all(ctx, *protocols)
}

// drive loads one address with the first protocol.
func (c *comparison) drive(ctx context.Context, addr, protocols string) error {
	talk := rig.Mongo("shop", 0)
	if strings.HasPrefix(protocols, "postgres") {
		talk = postgresTalk()
	}
	for _, n := range c.conns {
		l, err := talk.Drive(ctx, n, c.round, addr)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "%d connections: %.0f requests/s, p50 %v, p99 %v\n", n, l.PerSecond(), l.P50, l.P99)
	}
	return nil
}

// all measures the protocols.
func (c *comparison) all(ctx context.Context, protocols string) (err error) {
	if c.self, err = os.Executable(); err != nil {
		return err
	}
	remove, err := c.tempDir()
	if err != nil {
		return err
	}
	defer remove()
	for p := range strings.SplitSeq(protocols, ",") {
		switch p {
		case "mongodb":
			err = c.run(ctx, p, rig.Mongo("shop", 0))
		case "postgres":
			err = c.run(ctx, p, postgresTalk())
		default:
			return errors.New("unknown protocol " + p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
