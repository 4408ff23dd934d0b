package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/admitd/admitd/bench/rig"
)

// comparison measures every peer in turn, round by round.
type comparison struct {
	admitd, copyproxy, self string
	dir                     string
	out                     io.Writer
	round                   time.Duration
	rounds                  int
	conns                   []int
	idle                    int
	settle                  time.Duration // from the last idle connection to the measurement
	procs                   []string      // further gates, with this GOMAXPROCS
	others                  []string      // further builds of the gate
}

// measured is what the rounds of one peer have shown.
type measured struct {
	*rig.Process
	rate, cpu, p50, p99 []float64 // requests per second; seconds
	rss                 int64
}

// run measures one protocol and prints its tables.
func (c *comparison) run(ctx context.Context, protocol string, talk rig.Talk) error {
	backend, err := rig.Start(ctx, "direct", func(addr string) *exec.Cmd {
		return exec.Command(c.self, "-model", protocol, "-listen", addr)
	})
	if err != nil {
		return err
	}
	defer backend.Stop()
	if err := c.busy(ctx, protocol, backend, &talk); err != nil {
		return err
	}
	if c.idle == 0 {
		return nil
	}
	return c.parked(ctx, protocol, backend, &talk)
}

// busy measures requests and prints a table.
func (c *comparison) busy(ctx context.Context, protocol string, backend *rig.Process, talk *rig.Talk) error {
	peers := []*rig.Process{backend}
	for _, f := range c.forms(protocol, backend.Addr) {
		p, err := c.start(ctx, &f)
		if err != nil {
			return err
		}
		if p != nil {
			defer p.Stop()
			peers = append(peers, p)
		}
	}
	var rows [][]string
	for _, conns := range c.conns {
		all := make([]*measured, len(peers))
		for i, p := range peers {
			all[i] = &measured{Process: p}
		}
		for range c.rounds {
			for _, m := range all {
				if err := c.measure(ctx, m, talk, conns); err != nil {
					return fmt.Errorf("%s: %w", m.Name, err)
				}
			}
		}
		rows = append(rows, table(conns, all)...)
	}
	fmt.Fprintf(c.out, "%s, medians of %d interleaved rounds of %v:\n\n", protocol, c.rounds, c.round)
	rig.Table(c.out, []string{"connections", "through", "requests/s", "HAProxy = 1", "CPU per request", "HAProxy = 1", "p50", "p99", "RSS"}, rows)
	fmt.Fprintln(c.out)
	return nil
}

// measure runs one round. To connect and to part is no part of a request, and is left
// out.
func (c *comparison) measure(ctx context.Context, m *measured, talk *rig.Talk, conns int) error {
	crew, err := talk.Gather(conns, m.Addr)
	if err != nil {
		return err
	}
	defer crew.Close()
	if _, err := crew.Drive(ctx, c.round/5); err != nil { // warm
		return err
	}
	before := m.CPU()
	l, err := crew.Drive(ctx, c.round)
	if err != nil {
		return err
	}
	m.rate = append(m.rate, l.PerSecond())
	m.cpu = append(m.cpu, (m.CPU()-before).Seconds()/float64(l.Done))
	m.p50, m.p99 = append(m.p50, l.P50.Seconds()), append(m.p99, l.P99.Seconds())
	m.rss = max(m.rss, m.RSS())
	return ctx.Err()
}

// table returns the rows of one number of connections. Ratios are taken round by
// round: what else the machine does strikes both.
func table(conns int, all []*measured) (rows [][]string) {
	var base measured
	for _, m := range all {
		if m.Name == "HAProxy, TCP" {
			base = *m
		}
	}
	for _, m := range all {
		cpu, toCPU := "–", "–"
		if m.Name != "direct" {
			cpu, toCPU = fmt.Sprintf("%.1f µs", rig.Median(m.cpu)*1e6), beside(m.cpu, base.cpu)
		}
		rows = append(rows, []string{
			strconv.Itoa(conns), m.Name, fmt.Sprintf("%.0f", rig.Median(m.rate)), beside(m.rate, base.rate), cpu, toCPU,
			rig.Millis(rig.Median(m.p50)), rig.Millis(rig.Median(m.p99)), rig.MiB(m.rss),
		})
	}
	return rows
}

// beside returns the median ratio of the rounds.
func beside(v, of []float64) string {
	if len(v) != len(of) {
		return "–"
	}
	ratios := make([]float64, len(v))
	for i := range v {
		ratios[i] = v[i] / of[i]
	}
	return fmt.Sprintf("%.2f", rig.Median(ratios))
}

// parked measures connections that were used once and are silent since.
func (c *comparison) parked(ctx context.Context, protocol string, backend *rig.Process, talk *rig.Talk) error {
	n := min(c.idle, rig.Idle())
	var rows [][]string
	for _, f := range c.forms(protocol, backend.Addr) {
		p, err := c.start(ctx, &f)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		kib, err := c.park(ctx, p, talk, n)
		p.Stop()
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		rows = append(rows, []string{p.Name, fmt.Sprintf("%.1f KiB", kib)})
	}
	fmt.Fprintf(c.out, "%s, memory of each of %d idle connections, used once, %v later:\n\n", protocol, n, c.settle)
	rig.Table(c.out, []string{"through", "RSS"}, rows)
	fmt.Fprintln(c.out)
	return nil
}

// park opens n connections, asks once on each, and returns how much the process
// has grown for each, in KiB, when it has come to rest.
func (c *comparison) park(ctx context.Context, p *rig.Process, talk *rig.Talk, n int) (kib float64, err error) {
	if _, err := talk.Drive(ctx, 8, time.Second/5, p.Addr); err != nil {
		return 0, err
	}
	before := p.RSS()
	for range n {
		cl, err := talk.Dial(p.Addr, nil)
		if err != nil {
			return 0, err
		}
		defer cl.Close()
		if err := cl.Ask(); err != nil {
			return 0, err
		}
		cl.Forget()
	}
	if err := rig.Pause(ctx, c.settle); err != nil {
		return 0, err
	}
	return float64(p.RSS()-before) / float64(n) / 1024, nil
}

// tempDir makes the directory for what peers read.
func (c *comparison) tempDir() (remove func(), err error) {
	c.dir, err = os.MkdirTemp("", "wire")
	return func() { _ = os.RemoveAll(c.dir) }, err
}
