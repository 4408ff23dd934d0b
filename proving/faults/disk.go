package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// smallDisk mounts a disk of 64 KiB for a row; use is told its directory.
func smallDisk(use func(w *world, dir string) error) func(*world) error {
	return func(w *world) error {
		if err := apart(); err != nil {
			return err
		}
		dir := filepath.Join(w.dir, "disk")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
			return absence("needs to mount a disk: " + err.Error())
		}
		w.undo = append(w.undo, func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		return use(w, dir)
	}
}

// apart says why a row that mounts or wires something may not be played.
func apart() error {
	if os.Getenv("FAULTS_APART") == "" {
		return absence("needs namespaces of its own, which scripts/faults.sh could not make")
	}
	return nil
}

// fill leaves no room on a disk; what it returns makes room again.
func fill(dir string) (func() error, error) {
	name := filepath.Join(dir, "ballast")
	for step := 4 << 10; step > 0; step /= 4 {
		for {
			f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, err
			}
			_, err = f.Write(make([]byte, step))
			_ = f.Close()
			if errors.Is(err, syscall.ENOSPC) {
				break
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return func() error { return os.Remove(name) }, nil
}

// The state is written at the start and once a minute: its disk is full before
// the gate starts.
func stateDisk(w *world, dir string) error {
	w.extra = fmt.Sprintf("stateFile: %q", filepath.Join(dir, "state"))
	_, err := fill(dir)
	return err
}

// traceDisk is the disk of the trace, auditDisk that of the tuner's audit.
func traceDisk(w *world, dir string) error {
	w.failing = fmt.Sprintf("trace: { file: %q }", filepath.Join(dir, "trace"))
	return nil
}

// The tuner of this row moves the rate every second, in one direction and, since
// its least is reached, in the other.
func auditDisk(w *world, dir string) error {
	w.extra = fmt.Sprintf(`tuner:
  mode: act
  auditFile: %q
  signals: [ { name: busy, source: gate, metric: inFlight, ingress: failing, spike: -1 } ]
  policies: [ { name: turn, signal: busy, above: 0.5, below: 0, adjust: failing.requests.rate, min: 1000, max: 100000000, step: 0.01, cooldown: 1s } ]
  trial: { for: 10s }
`, filepath.Join(dir, "audit"))
	w.failing = "requests: { rate: 1e8 }"
	return nil
}

// diskFull fills the disk, and makes room again when the gate has noticed.
func diskFull(what string) func(context.Context, *world) error {
	return func(_ context.Context, w *world) error {
		free, err := fill(filepath.Join(w.dir, "disk"))
		if err != nil {
			return err
		}
		err = w.until(45*time.Second, "a word about the disk", func() error {
			if n, last := w.log.say(what); n == 0 {
				return fmt.Errorf("the log has nothing about the %s, and last %q", what, last)
			}
			return nil
		})
		time.Sleep(time.Second)
		return errors.Join(err, free())
	}
}

// auditDiskFull does so and sees that the audit goes on, in whole lines.
func auditDiskFull(ctx context.Context, w *world) error {
	name := filepath.Join(w.dir, "disk", "audit")
	grown := func(than int) error {
		return w.until(30*time.Second, "the audit grows", func() error {
			b, err := os.ReadFile(name)
			if err == nil && len(b) <= than {
				err = fmt.Errorf("it has %d bytes", len(b))
			}
			return err
		})
	}
	if err := grown(0); err != nil {
		return err
	}
	if err := diskFull("audit")(ctx, w); err != nil {
		return err
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := grown(len(b)); err != nil {
		return err
	}
	if b, err = os.ReadFile(name); err != nil {
		return err
	}
	for line := range bytes.Lines(b) {
		if !json.Valid(line) {
			return fmt.Errorf("a line of the audit is torn: %q", line)
		}
	}
	return nil
}
