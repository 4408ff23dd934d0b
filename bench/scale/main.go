// Scale shows what admitd costs when something grows: idle connections,
// partitions, the size of messages, ingresses. One gate for every size runs beside
// the others, and they are measured in turns; what is printed is the median of the
// rounds, and to how much of the smallest it has grown.
//
//	scale -admitd bin/admitd [-for 700ms] [-rounds 3] [-connections 100000] [-partitions 100000] [-pictures docs/performance] [-only gates]
//
// Everything runs on the loopback and is bounded in time. Fewer connections are
// opened where descriptors do not allow more, which the table tells.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/admitd/admitd/bench/rig"
	"github.com/admitd/admitd/internal/modelmongo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// growth is what all curves share.
type growth struct {
	admitd, dir, pictures   string
	backend                 *rig.Process
	round                   time.Duration
	rounds                  int
	connections, partitions int
}

// run does what the arguments say.
func run(ctx context.Context, args []string) (err error) {
	g := &growth{}
	fs := flag.NewFlagSet("scale", flag.ContinueOnError)
	model := fs.String("model", "", "be the backend on this address, and nothing else")
	only := fs.String("only", "connections,partitions,size,gates", "what grows")
	fs.StringVar(&g.admitd, "admitd", "bin/admitd", "the binary to measure")
	fs.StringVar(&g.pictures, "pictures", "", "directory for the pictures; empty = none")
	fs.DurationVar(&g.round, "for", 700*time.Millisecond, "length of one measurement")
	fs.IntVar(&g.rounds, "rounds", 3, "rounds; the median counts")
	fs.IntVar(&g.connections, "connections", 100_000, "idle connections, as many as descriptors allow")
	fs.IntVar(&g.partitions, "partitions", 100_000, "partitions")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *model != "" {
		ln, err := net.Listen("tcp", *model)
		if err != nil {
			return err
		}
		return modelmongo.New(1, 0).Serve(ctx, ln)
	}
	if g.dir, err = os.MkdirTemp("", "scale"); err != nil {
		return err
	}
	defer os.RemoveAll(g.dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	g.backend, err = rig.Start(ctx, "backend", func(addr string) *exec.Cmd { return exec.Command(self, "-model", addr) })
	if err != nil {
		return err
	}
	defer g.backend.Stop()
	return g.all(ctx, strings.Split(*only, ","))
}

// all draws the curves.
func (g *growth) all(ctx context.Context, names []string) error {
	curves := map[string]func(context.Context) (*curve, error){
		"connections": g.idle, "partitions": g.tenants, "size": g.large, "gates": g.many,
	}
	for _, name := range names {
		make, ok := curves[name]
		if !ok {
			return errors.New("nothing grows that is called " + name)
		}
		c, err := make(ctx)
		if err == nil {
			err = c.measure(ctx, g)
		}
		if c != nil {
			c.stop()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.print(os.Stdout)
		if g.pictures != "" {
			if err := c.draw(filepath.Join(g.pictures, name+".svg")); err != nil {
				return err
			}
		}
	}
	return nil
}

// gate runs admitd with n ingresses and returns it with their addresses.
func (g *growth) gate(ctx context.Context, n, partitions int) (p *rig.Process, addrs []string, err error) {
	p, err = rig.Start(ctx, "admitd", func(addr string) *exec.Cmd {
		addrs = []string{addr}
		for len(addrs) < n {
			addrs = append(addrs, rig.Free())
		}
		text := "admin: { listen: \"127.0.0.1:0\" }\nlog: { level: error }\ningresses:\n"
		for i, a := range addrs {
			text += fmt.Sprintf("  - { name: gate%d, protocol: mongodb, listen: %q, backend: %q, connections: { maxOpen: 200000 }, requests: { rate: 10000000 },\n"+
				"      partitions: { by: database, max: %d, default: { limit: { algorithm: fixed, limit: 2000 } } } }\n", i, a, g.backend.Addr, partitions)
		}
		file := filepath.Join(g.dir, strings.ReplaceAll(addr, ":", "-")+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			panic(err) // a full disk: nothing to measure
		}
		return exec.Command(g.admitd, "serve", "--config", file)
	})
	return p, addrs, err
}
