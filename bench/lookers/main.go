// Lookers shows what those who look at admitd cost those who use it: it sends
// open-loop traffic of many tenants through the binary, by turns with nobody
// looking and with live pages and `top` open, and compares the latencies.
//
//	lookers -admitd bin/admitd [-partitions 20000] [-pages 5] [-tops 3] [-most 1.3]
//
// Everything runs on the loopback and is bounded in time. It ends with 1 when the
// p99 with lookers is more than -most times the one without.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// options say how much is done.
type options struct {
	admitd     string
	partitions int
	pages      int
	tops       int
	rate       float64       // requests per second
	turn       time.Duration // that nobody looks, and then that they do
	turns      int           // of each
	most       float64       // times the p99 of none
}

func main() {
	o := options{}
	flag.StringVar(&o.admitd, "admitd", "bin/admitd", "the binary to measure")
	flag.IntVar(&o.partitions, "partitions", 20_000, "tenants, each with a partition")
	flag.IntVar(&o.pages, "pages", 5, "live pages open")
	flag.IntVar(&o.tops, "tops", 3, "terminals with `top`")
	flag.Float64Var(&o.rate, "rate", 1000, "requests per second")
	flag.DurationVar(&o.turn, "turn", 2*time.Second, "how long nobody looks, and then they do")
	flag.IntVar(&o.turns, "turns", 15, "turns of each")
	flag.Float64Var(&o.most, "most", 1.3, "p99 with lookers over p99 without, at most")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "lookers:", err)
		os.Exit(1)
	}
}

// run starts everything, measures by turns and judges.
func run(ctx context.Context, o *options) error {
	backend := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done\n") }), ReadHeaderTimeout: time.Second}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = backend.Serve(ln) }()
	defer backend.Close()
	d, err := start(ctx, o, ln.Addr().String())
	if err != nil {
		return err
	}
	defer d.stop()
	t := &traffic{url: "http://" + d.listen, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 10 * time.Second}, o: o}
	if err := t.fill(ctx); err != nil {
		return err
	}
	t.turn(ctx) // warm
	var alone, watched quantiles
	for range o.turns {
		alone.add(t.turn(ctx))
		leave := look(ctx, o, d.admin)
		watched.add(t.turn(ctx))
		if bytes := leave(); bytes == 0 {
			return errors.New("those who look saw nothing")
		}
	}
	a, b := median(alone.p99), median(watched.p99)
	fmt.Printf("%d partitions, %.0f requests/s, %d turns of %s each, medians over the turns\n", o.partitions, o.rate, o.turns, o.turn)
	fmt.Printf("  nobody looks:            p50 %s, p99 %s\n", median(alone.p50), a)
	fmt.Printf("  %d pages and %d top open: p50 %s, p99 %s\n", o.pages, o.tops, median(watched.p50), b)
	ratio := float64(b) / float64(a)
	fmt.Printf("  p99 is %.2f× of none; at most %.2f× wanted\n", ratio, o.most)
	if t.failed.Load() > 0 {
		return fmt.Errorf("%d requests failed", t.failed.Load())
	}
	if ratio > o.most {
		return errors.New("those who look are felt")
	}
	return ctx.Err()
}

// quantiles are those of each turn: what else the machine does in one of them
// must not decide.
type quantiles struct{ p50, p99 []time.Duration }

// add takes the latencies of a turn.
func (q *quantiles) add(turn []time.Duration) {
	slices.Sort(turn)
	q.p50 = append(q.p50, turn[len(turn)/2])
	q.p99 = append(q.p99, turn[len(turn)*99/100])
}

// median returns the one in the middle, rounded.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2].Round(10 * time.Microsecond)
}

// daemon is the measured process.
type daemon struct {
	cmd           *exec.Cmd
	dir           string
	listen, admin string
}

// start runs the binary until it serves.
func start(ctx context.Context, o *options, backend string) (*daemon, error) {
	dir, err := os.MkdirTemp("", "lookers")
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir, listen: free(), admin: free()}
	file := filepath.Join(dir, "admitd.yaml")
	text := fmt.Sprintf("admin: { listen: %s }\nlog: { level: error }\ningresses:\n  - name: orders\n    listen: %s\n    backend: http://%s\n    partitions: { by: \"header:X-Tenant\", max: %d }\n",
		d.admin, d.listen, backend, o.partitions+100)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	d.cmd = exec.CommandContext(ctx, o.admitd, "serve", "--config", file)
	d.cmd.Stderr = os.Stderr
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		if res, err := http.Get("http://" + d.admin + "/readyz"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return d, nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	d.stop()
	return nil, errors.New("admitd did not start")
}

// stop ends it.
func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	_ = d.cmd.Wait()
	_ = os.RemoveAll(d.dir)
}

// free returns an address that nobody listens on.
func free() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:0"
	}
	defer ln.Close()
	return ln.Addr().String()
}

// look opens pages and terminals until leave is called, which returns how many
// bytes they were told.
func look(ctx context.Context, o *options, admin string) (leave func() int64) {
	ctx, cancel := context.WithCancel(ctx)
	var (
		wg  sync.WaitGroup
		sum = make([]int64, o.pages+o.tops)
	)
	for i := range o.pages {
		wg.Go(func() { sum[i] = read(ctx, "http://"+admin+"/v1/events") })
	}
	for i := range o.tops {
		wg.Go(func() {
			ticker := time.NewTicker(time.Second)
			defer ticker.Stop()
			for ctx.Err() == nil {
				sum[o.pages+i] += read(ctx, "http://"+admin+"/v1/status")
				select {
				case <-ticker.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return func() (all int64) {
		cancel()
		wg.Wait()
		for _, n := range sum {
			if n == 0 {
				return 0 // somebody was told nothing
			}
			all += n
		}
		return all
	}
}

// read reads an answer to its end, or until ctx is done.
func read(ctx context.Context, url string) int64 {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	n, _ := io.Copy(io.Discard, res.Body) // a stream ends with ctx
	if !strings.HasPrefix(res.Status, "200") {
		return 0
	}
	return n
}
