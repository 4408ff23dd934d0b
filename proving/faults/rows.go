package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// row is a row of the matrix.
type row struct {
	name    string
	prepare func(w *world) error // before the gate starts
	fault   func(ctx context.Context, w *world) error
	not     string        // the protocol that it does not apply to
	never   bool          // the failing ingress never answers
	alone   bool          // other traffic cannot be unharmed, since the gate itself fails
	ended   bool          // the gate is gone afterwards
	lines   int           // that it may log; 0 = 40
	says    string        // and once something with this in it
	longer  time.Duration // than two minutes
}

const short = 400 * time.Millisecond // a client's patience

// during presses on the failing ingress while f happens.
func during(f func(ctx context.Context, w *world) error) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		l := w.press(ctx, w.gate, 10, short)
		defer l.end()
		return f(ctx, w)
	}
}

// mode has the wire fail in one way for a second and a half.
func mode(m fault) func(context.Context, *world) error {
	return during(func(_ context.Context, w *world) error {
		w.wire.mode.Store(int32(m))
		time.Sleep(1500 * time.Millisecond)
		w.wire.mode.Store(int32(none))
		return nil
	})
}

func rows(random time.Duration, seed uint64) []row {
	return append([]row{
		{name: "backend stopped", fault: mode(silent)},
		{name: "backend killed and back", fault: during(killed)},
		{name: "backend slow", fault: mode(slow)},
		{name: "backend pauses", fault: during(func(_ context.Context, w *world) error { w.wire.pause(); return nil })},
		{name: "packets dropped", prepare: toIsland, fault: during(dropped)},
		{name: "half open: packets dropped, and another backend afterwards", prepare: toIsland, fault: during(vanished)},
		{name: "backend resets", fault: mode(resets)},
		{name: "backend answers garbage", fault: mode(garbage)},
		{name: "backend refuses TLS", prepare: wantsTLS, never: true, fault: during(nothing)},
		{name: "clients that only connect", fault: clients(300, nil)},
		{name: "clients gone in the middle of a request", fault: halves(100)},
		{name: "clients gone before the answer", fault: impatient},
		{name: "clients that stay in the middle of a request", fault: stalled},
		{name: "flood of connections", fault: flood},
		{name: "gate out of file descriptors", prepare: fewFiles, alone: true, lines: 200, fault: flood},
		{name: "gate told of 64 MiB", prepare: memoryGoal, fault: during(crowded)},
		{name: "gate in a control group of 64 MiB", prepare: memoryGroup, fault: during(crowded)},
		{name: "disk full for the state", prepare: smallDisk(stateDisk), says: "state file", fault: during(nothing)},
		{name: "disk full for traces", prepare: smallDisk(traceDisk), says: "recording", fault: during(diskFull("recording"))},
		{name: "disk full for the audit", prepare: smallDisk(auditDisk), says: "audit", fault: during(auditDiskFull)},
		{name: "clock frozen", prepare: bent("frozen"), says: "not trusted", fault: during(bending)},
		{name: "clock an hour ahead, and back", prepare: bent("jump=1h"), says: "not trusted", fault: during(bending)},
		{name: "clock an hour behind, and back", prepare: bent("jump=-1h"), says: "not trusted", fault: during(bending)},
		{name: "clock runs backwards", prepare: bent("backwards=50ms"), says: "not trusted", fault: during(bending)},
		{name: "processor stolen for 3 s", alone: true, fault: during(stolen)},
		{name: "reloads every 100 ms", fault: during(reloads)},
		{name: "drain under load", alone: true, ended: true, fault: during(drained)},
		{name: "killed and started again under load", alone: true, fault: during(restarted)},
		{name: "two gates, each killed and started again under load", alone: true, fault: pair},
	}, row{name: fmt.Sprintf("everything at random for %v", random), longer: 2 * random, lines: 400, fault: randomly(random, seed)})
}

// nothing happens while clients ask; the fault is there from the beginning.
func nothing(context.Context, *world) error {
	time.Sleep(1500 * time.Millisecond)
	return nil
}

func killed(_ context.Context, w *world) error {
	w.wire.kill()
	time.Sleep(time.Second)
	return w.wire.revive()
}

func wantsTLS(w *world) error {
	w.tls = true
	return nil
}

// clients connect, say something and go.
func clients(n int, say []byte) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		for range n {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", w.gate)
			if err != nil {
				return err
			}
			_, _ = c.Write(say)
			_ = c.Close()
		}
		return nil
	}
}

func halves(n int) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error { return clients(n, w.half)(ctx, w) }
}

// impatient clients leave before their answer has come.
func impatient(ctx context.Context, w *world) error {
	w.wire.mode.Store(int32(slow))
	defer w.wire.mode.Store(int32(none))
	l := w.press(ctx, w.gate, 10, 60*time.Millisecond)
	time.Sleep(1500 * time.Millisecond)
	l.end()
	return nil
}

// stalled clients keep half a request open while others ask.
func stalled(ctx context.Context, w *world) error {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	for range 30 {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", w.gate)
		if err != nil {
			return err
		}
		_, _ = c.Write(w.half)
		open = append(open, c)
	}
	for range 20 {
		if err := w.once(ctx, w.gate, 5*time.Second); err != nil {
			return fmt.Errorf("beside clients that stall: %w", err)
		}
	}
	return nil
}

// flood opens many connections at once, and closes them.
func flood(ctx context.Context, w *world) error {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var open []net.Conn
			for range 60 {
				d := net.Dialer{Timeout: time.Second}
				if c, err := d.DialContext(ctx, "tcp", w.gate); err == nil {
					open = append(open, c)
				}
			}
			time.Sleep(500 * time.Millisecond)
			for _, c := range open {
				_ = c.Close()
			}
		})
	}
	wg.Wait()
	return nil
}

func fewFiles(w *world) error {
	w.limit = []string{"prlimit", "--nofile=80:80"}
	return nil
}

func stolen(_ context.Context, w *world) error { return paused(w, 3*time.Second) }

// paused takes the processor from the gate for a while.
func paused(w *world, d time.Duration) error {
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(d)
	return w.cmd.Process.Signal(syscall.SIGCONT)
}

func reloads(_ context.Context, w *world) error {
	for i := range 20 {
		if err := w.configure(40 + i); err != nil {
			return err
		}
		_ = w.cmd.Process.Signal(syscall.SIGHUP)
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// drained ends the gate while it is asked.
func drained(_ context.Context, w *world) error {
	time.Sleep(300 * time.Millisecond)
	code, err := w.stop(syscall.SIGTERM)
	if err == nil && code != 0 {
		err = fmt.Errorf("it ended with %d", code)
	}
	return err
}

// restarted kills the gate without a word, and starts it again.
func restarted(ctx context.Context, w *world) error {
	if _, err := w.stop(syscall.SIGKILL); err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond)
	return w.start(ctx)
}

// randomly plays faults of the wire, of clients and of the processor, one after
// another.
func randomly(d time.Duration, seed uint64) func(context.Context, *world) error {
	return during(func(ctx context.Context, w *world) error {
		rng := rand.New(rand.NewPCG(seed, 1))
		began := time.Now()
		var played []string
		for time.Since(began) < d {
			name, err := anyFault(ctx, w, rng)
			played = append(played, name)
			if err != nil {
				return fmt.Errorf("after %v, the last of %s: %w", time.Since(began), strings.Join(played[max(len(played)-6, 0):], ", "), err)
			}
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		}
		return nil
	})
}

// anyFault plays one of them and returns its name.
func anyFault(ctx context.Context, w *world, rng *rand.Rand) (name string, err error) {
	switch rng.IntN(11) {
	case 0:
		return "killed", killed(ctx, w)
	case 1:
		w.wire.pause()
		return "pause", nil
	case 2:
		return "halves", halves(20)(ctx, w)
	case 3:
		return "flood", flood(ctx, w)
	case 4:
		return "reloads", reloads(ctx, w)
	case 5:
		// What earlier faults have left at the backend may hold a producer up for as
		// long as it is bounded by; see after.
		if err := w.until(45*time.Second, "an answer", func() error { return w.once(ctx, w.gate, 5*time.Second) }); err != nil {
			return "stalled", err
		}
		return "stalled", stalled(ctx, w)
	case 6:
		return "impatient", impatient(ctx, w)
	case 7:
		return "paused", paused(w, time.Duration(rng.IntN(500))*time.Millisecond)
	default:
		m := 1 + rng.Int32N(4)
		w.wire.mode.Store(m)
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
		w.wire.mode.Store(int32(none))
		return fmt.Sprintf("wire in mode %d", m), nil
	}
}
