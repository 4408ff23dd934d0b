package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// tenants is how many users share the server, t1 and so on.
const tenants = 20

// pacedEvery is the time between the transactions of a client that does not ask all
// the time.
const pacedEvery = 400 * time.Millisecond

// crowd is who asks.
type crowd struct {
	name string
	// of returns how many clients the user of the index has, and whether they ask
	// all the time.
	of func(tenant int) (clients int, always bool)
}

func crowds() []crowd {
	return []crowd{
		{"equal", func(int) (int, bool) { return 8, true }},
		{"one storms", func(tenant int) (int, bool) {
			if tenant == 0 {
				return 150, true
			}
			return 4, false
		}},
	}
}

// runTenants prints what each of the users gets of a server that takes so long for
// every statement, whatever it is.
func runTenants(ctx context.Context, o options) error {
	fmt.Println("| users | through | answered/s | p99 | refused/s | the first | of the others, the least | median | the most |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, c := range crowds() {
		for _, r := range o.routes {
			if err := playTenants(ctx, o, c, r); err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, r.name, err)
			}
		}
	}
	return nil
}

func playTenants(ctx context.Context, o options, c crowd, r route) error {
	var of [tenants][]*client
	defer func() {
		for _, clients := range of {
			for _, c := range clients {
				c.conn.close()
			}
		}
	}()
	var measured, over atomic.Bool
	var all sync.WaitGroup
	statement := func() []string { return []string{"select pg_sleep(0.02)"} }
	for i := range of {
		n, always := c.of(i)
		clients, err := connect(ctx, r.addr, n, "t"+strconv.Itoa(i+1))
		of[i] = clients
		if err != nil {
			over.Store(true)
			all.Wait()
			return err
		}
		for k, c := range clients {
			all.Go(func() {
				c.repeat(&measured, &over, func() []string {
					if !always {
						time.Sleep(pacedEvery)
					}
					return statement()
				}, time.Duration(k)*pacedEvery/time.Duration(n))
			})
		}
	}
	err := pause(ctx, o.warm)
	measured.Store(true)
	if err == nil {
		err = pause(ctx, o.lasts)
	}
	measured.Store(false)
	over.Store(true)
	for _, clients := range of {
		for _, c := range clients {
			c.conn.interrupt()
		}
	}
	all.Wait()
	var sum cell
	var each []float64
	for _, clients := range of {
		answered := 0
		for _, c := range clients {
			answered += len(c.cell.answered)
			sum.add(c.cell)
		}
		each = append(each, float64(answered)/o.lasts.Seconds())
	}
	others := slices.Sorted(slices.Values(each[1:]))
	fmt.Printf("| %s | %s | %.0f | %s | %.0f | %.1f/s | %.1f/s | %.1f/s | %.1f/s |\n", c.name, r.name, float64(len(sum.answered))/o.lasts.Seconds(),
		ms(quantile(sum.answered, 0.99)), float64(sum.refused)/o.lasts.Seconds(), each[0], others[0], others[len(others)/2], others[len(others)-1])
	return err
}
