// Command faults plays the fault matrix: what may happen to a backend, a client or
// the gate itself, one row at a time for each protocol, and what must hold all
// the same. scripts/faults.sh builds and runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("row", "", "rows whose name has this in it")
	names := flag.String("protocol", "http,mongodb,postgres,pulsar", "which gates")
	random := flag.Duration("random", 20*time.Second, "how long faults come at random")
	seed := flag.Uint64("seed", 1, "of the random faults")
	backend := flag.String("serve", "", "be the backend of this protocol")
	listen := flag.String("listen", "127.0.0.1:0", "and listen there")
	flag.Parse()
	if *backend != "" {
		fmt.Fprintln(os.Stderr, serveBackend(*backend, *listen))
		os.Exit(1)
	}
	ok, failed, absent := 0, 0, 0
	for _, p := range protocols() {
		if !slices.Contains(strings.Split(*names, ","), p.name) {
			continue
		}
		for _, r := range rows(*random, *seed) {
			if !strings.Contains(r.name, *only) || r.not == p.name {
				continue
			}
			err := play(p, r)
			switch why, missing := errors.AsType[absence](err); {
			case missing:
				absent++
				fmt.Printf("skip %s, %s: %v\n", p.name, r.name, why)
			case err != nil:
				failed++
				fmt.Printf("not ok %s, %s: %v\n", p.name, r.name, err)
			default:
				ok++
				fmt.Printf("ok %s, %s\n", p.name, r.name)
			}
		}
	}
	fmt.Printf("%d ok, %d not ok, %d skipped\n", ok, failed, absent)
	if failed > 0 {
		os.Exit(1)
	}
}

// absence is why a row cannot be played on this machine.
type absence string

// Error implements error.
func (a absence) Error() string { return string(a) }

// play plays one row in a world of its own.
func play(p protocol, r row) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute+r.longer)
	defer cancel()
	w, err := newWorld(ctx, p)
	if err != nil {
		return err
	}
	defer w.close()
	if r.prepare != nil {
		if err := r.prepare(w); err != nil {
			return err
		}
	}
	if err := w.configure(50); err != nil {
		return err
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	if err := w.settle(ctx, r); err != nil {
		return fmt.Errorf("before: %w", err)
	}
	before := w.weigh(ctx)
	var other *load
	if !r.alone {
		other = w.press(ctx, w.other, 2, 5*time.Second)
	}
	lines := w.log.count()
	err = r.fault(ctx, w)
	if other != nil {
		for end := time.Now().Add(5 * time.Second); other.asked.Load() < 10 && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
		other.end()
		if n := other.failed.Load(); err == nil && (n > 0 || other.asked.Load() == 0) {
			err = fmt.Errorf("other traffic: %d of %d failed: %v", n, other.asked.Load(), other.last.Load())
		}
	}
	if err != nil {
		return err
	}
	if r.ended {
		return nil
	}
	return w.after(ctx, r, before, w.log.count()-lines)
}

// weight is what the gate holds.
type weight struct{ goroutines, files, memory float64 }

func (w *world) weigh(ctx context.Context) (h weight) {
	h.goroutines, _ = w.metric(ctx, "go_goroutines")
	h.files, _ = w.metric(ctx, "process_open_fds")
	h.memory, _ = w.metric(ctx, "process_resident_memory_bytes")
	return h
}

// settle has the gate answer some requests.
func (w *world) settle(ctx context.Context, r row) error {
	for _, address := range []string{w.gate, w.other} {
		if address == w.gate && r.never {
			continue
		}
		for range 20 {
			if err := w.until(10*time.Second, "an answer", func() error { return w.once(ctx, address, 3*time.Second) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// after checks what must hold when the fault is over.
func (w *world) after(ctx context.Context, r row, before weight, logged int) error {
	if err := w.settle(ctx, r); err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	// Work whose caller has gone is held until its backend has answered, or until
	// what bounds that; half a minute for the slowest of the gates.
	err := w.until(45*time.Second, "afterwards", func() error {
		held, err := w.metric(ctx, "admitd_requests_in_flight")
		if err != nil || held != 0 {
			return fmt.Errorf("%v permits are held (%w)", held, err)
		}
		now := w.weigh(ctx)
		// Some connections to the backend are kept for a while.
		if now.goroutines > before.goroutines+20 || now.files > before.files+100 {
			return fmt.Errorf("%v goroutines and %v files, were %v and %v", now.goroutines, now.files, before.goroutines, before.files)
		}
		if now.memory > before.memory+128<<20 {
			return fmt.Errorf("%.0f MiB, were %.0f", now.memory/(1<<20), before.memory/(1<<20))
		}
		return nil
	})
	if err != nil {
		return err
	}
	said, last := w.log.say(r.says)
	if most := max(r.lines, 40); logged > most {
		return fmt.Errorf("%d lines were logged, want at most %d; the last: %s", logged, most, last)
	}
	if r.says != "" && said != 1 {
		return fmt.Errorf("the log says %q %d times, want once", r.says, said)
	}
	if code, err := w.stop(syscall.SIGTERM); err != nil || code != 0 {
		return fmt.Errorf("it ended with %d, %w", code, err)
	}
	return nil
}
