package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/admitd/admitd/bench/rig"
)

const (
	busy       = 16  // connections that ask
	changing   = 200 // partitions per second that are new
	perSource  = 20_000
	nameDigits = 8
)

// idle: connections that were used once and are silent since.
func (g *growth) idle(ctx context.Context) (*curve, error) {
	most := min(g.connections, rig.Idle())
	c := &curve{what: "idle connections", of: "request"}
	c.note = fmt.Sprintf("%d connections ask beside the idle ones. Descriptors allow %d idle ones here.", busy, most)
	for _, n := range []int{most / 100, most / 10, most} {
		p, addrs, err := g.gate(ctx, 1, 100)
		if err != nil {
			return c, err
		}
		pt := &point{label: strconv.Itoa(n), p: p, addrs: addrs, talk: rig.Mongo("shop", 0), conns: busy}
		c.points = append(c.points, pt)
		for i := range n {
			cl, err := pt.talk.Dial(addrs[0], source(i))
			if err != nil {
				return c, err
			}
			pt.held = append(pt.held, cl)
			if err := cl.Ask(); err != nil {
				return c, err
			}
			cl.Forget()
		}
	}
	return c, nil
}

// source returns the address from which the i-th connection comes: ports of one
// are few.
func source(i int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i/perSource))} }

// tenants: partitions that are all asked, and some that are new all the time.
func (g *growth) tenants(ctx context.Context) (*curve, error) {
	c := &curve{what: "partitions", of: "request"}
	c.note = fmt.Sprintf("All are asked, in turn, over %d connections, and %d a second are new: whoever was silent longest makes room.", busy, changing)
	for _, n := range []int{g.partitions / 1000, g.partitions / 100, g.partitions / 10, g.partitions} {
		p, addrs, err := g.gate(ctx, 1, n)
		if err != nil {
			return c, err
		}
		pt := &point{label: strconv.Itoa(n), p: p, addrs: addrs, talk: tenantsTalk(n), conns: busy, beside: change}
		c.points = append(c.points, pt)
		if err := pt.fill(n); err != nil {
			return c, err
		}
	}
	return c, nil
}

// fill asks once for every one of n databases.
func (pt *point) fill(n int) error {
	var wg sync.WaitGroup
	failed := make([]error, busy)
	for w := range busy {
		wg.Go(func() {
			cl, err := pt.talk.Dial(pt.addrs[0], nil)
			if err != nil {
				failed[w] = err
				return
			}
			defer cl.Close()
			cl.Begin(w * n / busy)
			for range (w+1)*n/busy - w*n/busy {
				if failed[w] = cl.Ask(); failed[w] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// tenantsTalk asks for one of n databases after the other.
func tenantsTalk(n int) rig.Talk {
	t := rig.Mongo(name(0), 0)
	at := t.Find(name(0))
	t.Vary = func(request []byte, i int) { copy(request[at:], name(i*7919%n)) }
	return t
}

// name is a database.
func name(i int) string { return fmt.Sprintf("t%0*d", nameDigits, i%1e8) }

// change asks for databases that nobody asked for before.
func change(ctx context.Context, pt *point) {
	t := rig.Mongo(name(0), 0)
	at, next := t.Find(name(0)), time.Now().UnixNano()%1e6*10+1e7
	t.Vary = func(request []byte, i int) { copy(request[at:], name(int(next)+i)) }
	cl, err := t.Dial(pt.addrs[0], nil)
	if err != nil {
		return
	}
	defer cl.Close()
	for rig.Pause(ctx, time.Second/changing) == nil && cl.Ask() == nil {
	}
}

// large: documents that a client writes.
func (g *growth) large(ctx context.Context) (*curve, error) {
	c := &curve{what: "document size", of: "MiB", perMiB: true}
	c.note = "Four connections write documents of this size as fast as they are answered."
	p, addrs, err := g.gate(ctx, 1, 100)
	if err != nil {
		return c, err
	}
	for _, kib := range []int{64, 256, 1 << 10, 4 << 10, 15 << 10} {
		label := fmt.Sprintf("%d KiB", kib)
		if kib >= 1<<10 {
			label = fmt.Sprintf("%d MiB", kib>>10)
		}
		c.points = append(c.points, &point{label: label, p: p, addrs: addrs, talk: rig.Mongo("shop", kib<<10), conns: 4, mib: float64(kib) / 1024})
	}
	return c, nil
}

// many: ingresses of one process that share the load.
func (g *growth) many(ctx context.Context) (*curve, error) {
	c := &curve{what: "ingresses", of: "request"}
	c.note = "The same 20 connections ask, in equal parts."
	for _, n := range []int{1, 2, 5, 10} {
		p, addrs, err := g.gate(ctx, n, 100)
		if err != nil {
			return c, err
		}
		c.points = append(c.points, &point{label: strconv.Itoa(n), p: p, addrs: addrs, talk: rig.Mongo("shop", 0), conns: 20})
	}
	return c, nil
}
