package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/admitd/admitd/bench/rig"
)

// curve is one thing that grows.
type curve struct {
	what, of string // "idle connections", "request"
	note     string // below the table
	points   []*point
	perMiB   bool // the cost is that of a MiB, not of a request
}

// point is one size, and the gate that has it.
type point struct {
	label  string
	p      *rig.Process
	addrs  []string // asked in equal parts
	talk   rig.Talk
	conns  int
	mib    float64 // of a request; 0 = it does not matter
	beside func(context.Context, *point)
	held   []io.Closer

	rate, cpu []float64 // requests per second; seconds of processor time
	rss       int64
}

// stop ends what the curve has started.
func (c *curve) stop() {
	seen := map[*rig.Process]bool{}
	for _, pt := range c.points {
		for _, h := range pt.held {
			_ = h.Close()
		}
		if pt.p != nil && !seen[pt.p] {
			seen[pt.p] = true
			pt.p.Stop()
		}
	}
}

// measure measures every size in turns.
func (c *curve) measure(ctx context.Context, g *growth) error {
	for range g.rounds {
		for _, pt := range c.points {
			if err := pt.round(ctx, g.round); err != nil {
				return fmt.Errorf("%s %s: %w", pt.label, c.what, err)
			}
		}
	}
	return nil
}

// round measures once.
func (pt *point) round(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if pt.beside != nil {
		go pt.beside(ctx, pt)
	}
	if _, err := pt.talk.Drive(ctx, pt.conns, d/5, pt.addrs...); err != nil { // warm
		return err
	}
	before := pt.p.CPU()
	l, err := pt.talk.Drive(ctx, pt.conns, d, pt.addrs...)
	if err != nil {
		return err
	}
	pt.rate = append(pt.rate, l.PerSecond())
	pt.cpu = append(pt.cpu, (pt.p.CPU()-before).Seconds()/float64(l.Done))
	pt.rss = max(pt.rss, pt.p.RSS())
	return nil
}

// cost is the median processor time of a request, or of a MiB, in seconds.
func (c *curve) cost(pt *point) float64 {
	if c.perMiB {
		return rig.Median(pt.cpu) / pt.mib
	}
	return rig.Median(pt.cpu)
}

// print prints a table.
func (c *curve) print(out io.Writer) {
	head := []string{c.what, "requests/s", "processor time per " + c.of, "first = 1", "RSS"}
	if c.perMiB {
		head[1] = "MiB/s"
	}
	var rows [][]string
	first := c.cost(c.points[0])
	for _, pt := range c.points {
		rate := rig.Median(pt.rate)
		if c.perMiB {
			rate *= pt.mib
		}
		rows = append(rows, []string{pt.label, fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.1f µs", c.cost(pt)*1e6), rig.Ratio(c.cost(pt), first), rig.MiB(pt.rss)})
	}
	rig.Table(out, head, rows)
	fmt.Fprintf(out, "\n%s\n\n", c.note)
}

// draw draws a picture.
func (c *curve) draw(file string) error {
	var labels []string
	var cost, memory []float64
	for _, pt := range c.points {
		labels = append(labels, pt.label)
		cost, memory = append(cost, c.cost(pt)*1e6), append(memory, float64(pt.rss)/(1<<20))
	}
	return rig.Picture(file, c.what, labels,
		rig.Panel{Title: "processor time per " + c.of + ", µs, by " + c.what, Values: cost}, rig.Panel{Title: "RSS, MiB", Values: memory})
}
