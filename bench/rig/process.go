// Package rig holds what the comparisons share: processes under test and what
// they use, conversations that load them, and tables and pictures of what was
// measured.
package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is one process under test, with its children.
type Process struct {
	Name, Addr string
	cmd        *exec.Cmd
}

// Start runs what command returns, which listens on the address that it is
// given, and waits until it does. It ends with this process.
func Start(ctx context.Context, name string, command func(addr string) *exec.Cmd) (*Process, error) {
	addr := Free()
	p := &Process{Name: name, Addr: addr, cmd: command(addr)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for range 250 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return p, nil
		}
		if Pause(ctx, 20*time.Millisecond) != nil {
			break
		}
	}
	p.Stop()
	return nil, fmt.Errorf("%s does not listen on %s", name, addr)
}

// Stop ends the process, by force when it does not go in time.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(3*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_ = p.cmd.Wait() // its exit code says nothing here
}

// CPU returns the processor time used so far, in steps of 10 ms.
func (p *Process) CPU() time.Duration {
	var ticks float64
	p.stats(func(f []string) { ticks += number(f[11]) + number(f[12]) })
	return time.Duration(ticks) * 10 * time.Millisecond // 100 ticks per second on Linux
}

// RSS returns the resident memory in bytes.
func (p *Process) RSS() int64 {
	var pages float64
	p.stats(func(f []string) { pages += number(f[21]) })
	return int64(pages) * int64(os.Getpagesize())
}

// stats hands over the fields of /proc/PID/stat, from the state on, of the
// process and its children.
func (p *Process) stats(each func(fields []string)) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // gone meanwhile
		}
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		text := string(raw)
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(fields) < 22 {
			continue
		}
		if parent, _ := strconv.Atoi(fields[1]); id == p.cmd.Process.Pid || parent == p.cmd.Process.Pid {
			each(fields)
		}
	}
}

// number reads a number of the kernel's.
func number(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64)
	return v
}

// Free returns a loopback address that nobody listens on.
func Free() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // no loopback: nothing can be measured
	}
	defer ln.Close()
	return ln.Addr().String()
}

// Pause waits.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Idle returns how many connections a gate can hold: each takes two descriptors, and
// it keeps some for itself, 1,024 of them from clients.
func Idle() int { return (files()-1024)/2 - 200 }

// files returns how many descriptors a process may have.
func files() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 1024
	}
	return int(min(l.Cur, 1<<20))
}
