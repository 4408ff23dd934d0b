// Command incidents plays what operators meet against the built daemon, each incident with
// a gate, a backend and a load of its own, and sees what is said of it: the verdict (page,
// /v1/status and top), explain, /readyz, a metric and an alert, during the incident and
// after it. Two more lines hold for all of them: no text ever has a figure that is
// nonsense, and before the incident nothing is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
)

const (
	// calmFor is how long a load goes on before the incident, so that a limit learns the
	// backend.
	calmFor = 12 * time.Second
	// saidWithin and overWithin bound how long a sentence, and the end of an alert, is
	// waited for on a busy machine. Rates of alerts are over a minute, and a state file
	// is written once a minute.
	saidWithin = 90 * time.Second
	overWithin = 3 * time.Minute
	// atOnce is how many incidents are played at the same time.
	atOnce = 4
)

func main() {
	only := flag.String("incident", "", "those whose name has this in it")
	verbose := flag.Bool("v", false, "print what is said")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if failed := playAll(ctx, *only, *verbose); failed > 0 {
		os.Exit(1)
	}
}

// playAll plays the incidents, some at the same time, and returns how many facts do not
// hold.
func playAll(ctx context.Context, only string, verbose bool) (failed int) {
	var worlds []*world
	var targets []string
	for _, i := range incidents() {
		if strings.Contains(i.name, only) {
			w := &world{incident: i, gate: freePort(), admin: freePort()}
			worlds, targets = append(worlds, w), append(targets, w.admin)
		}
	}
	watch, err := newPrometheus(ctx, targets)
	if err != nil {
		fmt.Printf("not ok prometheus: %v\n", err)
		return 1
	}
	defer watch.close()
	var mu sync.Mutex // guards failed and the output
	var all sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for _, w := range worlds {
		all.Go(func() {
			w.alerts = watch
			defer w.close()
			facts, err := w.play(ctx, room)
			mu.Lock()
			defer mu.Unlock()
			if why, missing := errors.AsType[absence](err); missing {
				fmt.Printf("absent %s: %v\n", w.name, why)
				return
			}
			if err != nil {
				failed++
				fmt.Printf("not ok %s: %v\n", w.name, err)
			}
			for _, f := range facts {
				if f.err != nil {
					failed++
					fmt.Printf("not ok %s, %s: %v\n", w.name, f.what, f.err)
					continue
				}
				fmt.Printf("ok %s, %s\n", w.name, f.what)
				if verbose && f.said != "" {
					fmt.Printf("    %s\n", strings.TrimSpace(f.said))
				}
			}
		})
	}
	all.Wait()
	return failed
}

// absence is why an incident cannot be played on this machine.
type absence string

// Error implements error.
func (a absence) Error() string { return string(a) }

// fact is what was to be seen, and was when err is nil.
type fact struct {
	what, said string
	err        error
}

// play plays one incident. room is taken while much is asked of the machine.
func (w *world) play(ctx context.Context, room chan struct{}) (facts []fact, err error) {
	room <- struct{}{}
	leave := sync.OnceFunc(func() { <-room })
	defer leave()
	if err := w.open(ctx); err != nil {
		return nil, err
	}
	see := func(what string, within time.Duration, holds func() (said string, err error)) bool {
		said, err := until(ctx, within, holds)
		facts = append(facts, fact{what, said, err})
		return err == nil
	}
	if !see("before it all is well", saidWithin, w.isCalm) {
		return facts, nil
	}
	if err := sleep(ctx, max(calmFor, w.calm)); err != nil {
		return facts, err
	}
	began := time.Now()
	if err := w.begin(ctx, w); err != nil {
		return facts, fmt.Errorf("it does not begin: %w", err)
	}
	if see("the verdict says so", saidWithin, w.verdictSays) {
		facts[len(facts)-1].said += fmt.Sprintf(" (after %.1f s)", time.Since(began).Seconds())
	}
	see("top says the same", saidWithin, w.topSays)
	if w.explain != "" {
		see("explain says so", saidWithin, w.explainSays)
	}
	see("readyz says so", saidWithin, w.readySays)
	see("the metric tells", saidWithin, w.metricTells)
	see("the alert "+w.alert+" is there", overWithin, func() (string, error) { return w.alerts.has(ctx, w.admin, w.alert, true) })
	if w.end != nil {
		if err := w.end(ctx, w); err != nil {
			return facts, fmt.Errorf("it does not end: %w", err)
		}
		see("after it all is well", saidWithin, w.isCalm)
		if !w.counter {
			see("the metric is back", saidWithin, w.metricIsBack)
		}
		w.rate.Store(calmRate / 4)
		leave() // what is left is waiting
	}
	if w.end != nil && !w.noisy {
		see("the alert is gone", overWithin, func() (string, error) { return w.alerts.has(ctx, w.admin, w.alert, false) })
	}
	w.nonsense.mu.Lock()
	defer w.nonsense.mu.Unlock()
	return append(facts, fact{what: "no figure in a text is nonsense", said: fmt.Sprintf("%d texts", w.nonsense.read), err: w.nonsense.err}), nil
}

// until tries until it holds.
func until(ctx context.Context, within time.Duration, holds func() (string, error)) (said string, err error) {
	for end := time.Now().Add(within); ; {
		if said, err = holds(); err == nil || time.Now().After(end) {
			return said, err
		}
		if stopped := sleep(ctx, 100*time.Millisecond); stopped != nil {
			return said, errors.Join(err, stopped)
		}
	}
}

// sleep waits, unless ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
