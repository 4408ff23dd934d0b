// Pgload plays loads against ways to one PostgreSQL server, in turns, and prints a
// table: answered transactions per second, their p50 and p99, and refusals. A
// client that is refused obeys: it waits for at least as long as the refusal says,
// with a jittered backoff that doubles, and tries the whole transaction again.
//
//	pgload -routes "direct=127.0.0.1:5432;gate=127.0.0.1:5433" -clients 20,200 -for 3s
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// load is what every client does again and again.
type load struct {
	name string
	// next returns the statements of the next transaction. They are sent one by
	// one, each when the one before was answered.
	next func(r *rand.Rand, scale int) []string
	// scans is how many further clients scan a table meanwhile, as another user.
	scans int
}

// loads returns the loads by which the ways are compared.
func loads() []load {
	return []load{
		{name: "one row", next: func(*rand.Rand, int) []string {
			return []string{"update hot set n = n + 1 where id = 1"}
		}},
		{name: "TPC-B", next: func(r *rand.Rand, scale int) []string {
			account, teller, branch, delta := 1+r.IntN(100_000*scale), 1+r.IntN(10*scale), 1+r.IntN(scale), r.IntN(10_001)-5000
			return []string{
				"begin",
				fmt.Sprintf("update pgbench_accounts set abalance = abalance + %d where aid = %d", delta, account),
				fmt.Sprintf("select abalance from pgbench_accounts where aid = %d", account),
				fmt.Sprintf("update pgbench_tellers set tbalance = tbalance + %d where tid = %d", delta, teller),
				fmt.Sprintf("update pgbench_branches set bbalance = bbalance + %d where bid = %d", delta, branch),
				fmt.Sprintf("insert into pgbench_history (tid, bid, aid, delta, mtime) values (%d, %d, %d, %d, current_timestamp)", teller, branch, account, delta),
				"end",
			}
		}},
		{name: "lookups beside scans", scans: 8, next: func(r *rand.Rand, scale int) []string {
			return []string{fmt.Sprintf("select abalance from pgbench_accounts where aid = %d", 1+r.IntN(100_000*scale))}
		}},
	}
}

// scan is what the clients beside the lookups do.
const scan = "select sum(abalance) from pgbench_accounts"

// route is one way to the server.
type route struct{ name, addr string }

// options are the command line.
type options struct {
	routes      []route
	clients     []int
	only        string
	warm, lasts time.Duration
	turns       int
	scale       int
	verbose     bool
	tenants     bool
}

func main() {
	o, err := parse()
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if o.tenants {
			err = runTenants(ctx, o)
		} else {
			err = run(ctx, o)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgload:", err)
		os.Exit(1)
	}
}

func parse() (o options, err error) {
	routes := flag.String("routes", "", "NAME=HOST:PORT;…")
	clients := flag.String("clients", "20,200,1000", "how many clients, one table each")
	flag.StringVar(&o.only, "only", "", "load to play; empty = all")
	flag.DurationVar(&o.warm, "warm", time.Second, "how long a cell is played before it is measured")
	flag.DurationVar(&o.lasts, "for", 4*time.Second, "how long a cell is measured, in each turn")
	flag.IntVar(&o.turns, "turns", 2, "how often the routes are played one after the other")
	flag.IntVar(&o.scale, "scale", 5, "of pgbench's tables")
	flag.BoolVar(&o.tenants, "tenants", false, "play users that share the server instead of the loads")
	flag.BoolVar(&o.verbose, "v", false, "print every cell of every turn on standard error")
	flag.Parse()
	for one := range strings.SplitSeq(*routes, ";") {
		name, addr, ok := strings.Cut(one, "=")
		if !ok {
			return o, fmt.Errorf("-routes %q: want NAME=HOST:PORT", one)
		}
		o.routes = append(o.routes, route{name, addr})
	}
	for one := range strings.SplitSeq(*clients, ",") {
		n, err := strconv.Atoi(one)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-clients %q: want whole numbers", one)
		}
		o.clients = append(o.clients, n)
	}
	return o, nil
}

// run plays every cell and prints the tables as they are done.
func run(ctx context.Context, o options) error {
	fmt.Println("| load | clients | through | answered/s | pgbouncer = 1 | p50 | p99 | pgbouncer = 1 | p99 with retries | refused/s | scans/s | errors |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, l := range loads() {
		if o.only != "" && o.only != l.name {
			continue
		}
		for _, n := range o.clients {
			sums := make([]cell, len(o.routes))
			for range o.turns {
				for i, r := range o.routes {
					c, err := play(ctx, o, l, r, n)
					if err != nil {
						return fmt.Errorf("%s, %d clients, %s: %w", l.name, n, r.name, err)
					}
					if o.verbose {
						fmt.Fprintf(os.Stderr, "%s %d %s %v\n", l.name, n, c.row(r.name, nil, o.lasts), c.notes)
					}
					sums[i].add(c)
				}
			}
			print(o, l, n, sums)
		}
	}
	return nil
}

// print prints the rows of one load with so many clients.
func print(o options, l load, n int, sums []cell) {
	var against *cell
	for i, r := range o.routes {
		if r.name == "pgbouncer" {
			against = &sums[i]
		}
	}
	for i, r := range o.routes {
		fmt.Printf("| %s | %d %s\n", l.name, n, sums[i].row(r.name, against, o.lasts*time.Duration(o.turns)))
	}
}

// cell is what was seen of one load over one way.
type cell struct {
	answered, whole          []time.Duration // of the attempt that was answered; with those before
	refused, scanned, failed int64
	notes                    map[string]int // what was refused and failed, from the beginning
}

func (c *cell) note(what string) {
	if c.notes == nil {
		c.notes = map[string]int{}
	}
	c.notes[what]++
}

// magnitude is the power of two milliseconds that a wait is below.
func magnitude(d time.Duration) string {
	below := time.Millisecond
	for below <= d {
		below *= 2
	}
	return "less than " + below.String()
}

func (c *cell) add(other cell) {
	c.answered, c.whole = append(c.answered, other.answered...), append(c.whole, other.whole...)
	c.refused += other.refused
	c.scanned += other.scanned
	c.failed += other.failed
	for what, n := range other.notes {
		if c.notes == nil {
			c.notes = map[string]int{}
		}
		c.notes[what] += n
	}
}

// row is the end of a row of the table, of a cell that was measured for so long.
func (c *cell) row(name string, against *cell, lasted time.Duration) string {
	s := lasted.Seconds()
	tps, p99 := float64(len(c.answered))/s, quantile(c.answered, 0.99)
	rate, tail := "–", "–"
	if against != nil && len(against.answered) > 0 {
		rate = fmt.Sprintf("%.2f", float64(len(c.answered))/float64(len(against.answered)))
		tail = fmt.Sprintf("%.2f", p99.Seconds()/quantile(against.answered, 0.99).Seconds())
	}
	return fmt.Sprintf("| %s | %.0f | %s | %s | %s | %s | %s | %.0f | %.1f | %d |", name, tps, rate, ms(quantile(c.answered, 0.5)), ms(p99), tail,
		ms(quantile(c.whole, 0.99)), float64(c.refused)/s, float64(c.scanned)/s, c.failed)
}

func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(float64(len(all))*q))]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }

// client is one connection and what it saw.
type client struct {
	conn *conn
	rand *rand.Rand
	cell cell
}

// play plays one cell. Clients connect before it begins, some at a time.
func play(ctx context.Context, o options, l load, r route, n int) (sum cell, err error) {
	clients, err := connect(ctx, r.addr, n, "app")
	defer func() {
		for _, c := range clients {
			c.conn.close()
		}
	}()
	if err != nil {
		return sum, err
	}
	scanners, err := connect(ctx, r.addr, l.scans, "reports")
	defer func() {
		for _, c := range scanners {
			c.conn.close()
		}
	}()
	if err != nil {
		return sum, err
	}
	var measured, over atomic.Bool
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			c.repeat(&measured, &over, func() []string { return l.next(c.rand, o.scale) }, 0)
		})
	}
	for _, c := range scanners {
		all.Go(func() { c.repeat(&measured, &over, func() []string { return []string{scan} }, 0) })
	}
	err = pause(ctx, o.warm)
	measured.Store(true)
	err = errors.Join(err, pause(ctx, o.lasts))
	measured.Store(false)
	over.Store(true)
	// A transaction that is still under way is not waited for.
	for _, c := range slices.Concat(clients, scanners) {
		c.conn.interrupt()
	}
	all.Wait()
	for _, c := range clients {
		sum.add(c.cell)
	}
	for _, c := range scanners {
		sum.scanned += int64(len(c.cell.answered))
	}
	return sum, err
}

// connect connects n clients, 32 at a time. One that is refused tries again.
func connect(ctx context.Context, addr string, n int, user string) ([]*client, error) {
	clients := make([]*client, n)
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	places := make(chan struct{}, 32)
	for i := range clients {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			var c *conn
			var err error
			for try := range 20 {
				if c, err = open(ctx, addr, user); err == nil {
					break
				}
				_ = pause(ctx, time.Duration(try+1)*50*time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			clients[i] = &client{conn: c, rand: rand.New(rand.NewPCG(uint64(i), 7))} //nolint:gosec // a load, no secret
		})
	}
	all.Wait()
	return slices.DeleteFunc(clients, func(c *client) bool { return c == nil }), failed
}

// maxBackoff bounds the backoff of a client that was refused again and again.
const maxBackoff = time.Second

// repeat plays transactions until it is over, after a pause. What begins and ends while
// measured is set counts.
func (c *client) repeat(measured, over *atomic.Bool, next func() []string, after time.Duration) {
	time.Sleep(after)
	statements, first, tries := next(), time.Now(), 0
	for !over.Load() {
		counts, begin := measured.Load(), time.Now()
		err := c.conn.transaction(statements)
		counts = counts && measured.Load()
		var ref *refusal
		switch {
		case err == nil:
			if counts {
				now := time.Now()
				c.cell.answered = append(c.cell.answered, now.Sub(begin))
				c.cell.whole = append(c.cell.whole, now.Sub(first))
			}
			statements, first, tries = next(), time.Now(), 0
		case errors.As(err, &ref):
			if counts {
				c.cell.refused++
			}
			c.cell.note(fmt.Sprintf("%s, retry in %s", ref.reason, magnitude(ref.retryAfter)))
			// As drivers do: a full jitter over a backoff that doubles, and at least
			// what the refusal says.
			backoff := min(maxBackoff, 100*time.Millisecond<<min(tries, 10))
			wait := max(ref.retryAfter, time.Duration(c.rand.Int64N(int64(backoff))))
			tries++
			for until := time.Now().Add(wait); time.Now().Before(until) && !over.Load(); {
				time.Sleep(min(time.Until(until), 50*time.Millisecond))
			}
		case over.Load():
			return
		default:
			c.cell.failed++ // before that too: who is broken asks no more
			c.cell.note("error: " + err.Error())
			if c.conn.broken {
				return
			}
			statements, first, tries = next(), time.Now(), 0
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
