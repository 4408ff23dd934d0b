package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// freePort returns an address that nobody listens on, below the ports from which
// connections are made.
func freePort() string {
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		if ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address); err == nil {
			_ = ln.Close()
			return address
		}
	}
}

// gate is admitd in a process of its own.
type gate struct {
	binary, dir, admin string
	top                string            // configuration beside the ingresses
	names              []string          // of the ingresses, in order
	ingresses          map[string]string // by name, as YAML
	cmd                *exec.Cmd
	exited             chan struct{}
	log                *journal
}

func newGate(binary, dir, top string) *gate {
	return &gate{binary: binary, dir: dir, admin: freePort(), top: top, ingresses: map[string]string{}, log: &journal{}}
}

// add adds an ingress, or puts another in its place.
func (g *gate) add(name, text string) {
	if _, there := g.ingresses[name]; !there {
		g.names = append(g.names, name)
	}
	g.ingresses[name] = text
}

// write writes the configuration.
func (g *gate) write() error {
	var b strings.Builder
	fmt.Fprintf(&b, "admin: { listen: %q }\nlog: { level: info, format: json }\n%s\ningresses:\n", g.admin, g.top)
	for _, name := range g.names {
		fmt.Fprintf(&b, "  - { name: %s, %s }\n", name, g.ingresses[name])
	}
	file := filepath.Join(g.dir, "gate.yaml")
	if err := os.WriteFile(file+".new", []byte(b.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// start starts the gate and waits until it is ready.
func (g *gate) start(ctx context.Context) error {
	if err := g.write(); err != nil {
		return err
	}
	g.cmd = exec.CommandContext(ctx, g.binary, "serve", "--config", filepath.Join(g.dir, "gate.yaml"))
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if err := g.cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	g.exited = exited
	go func() {
		_ = g.cmd.Wait() // its state has the code
		close(exited)
	}()
	return until(10*time.Second, "the gate is ready", func() error {
		select {
		case <-exited:
			return errors.New("it has ended: " + g.log.last())
		default:
			var page string
			return get(ctx, "http://"+g.admin+"/readyz", &page)
		}
	})
}

// reload puts what was added in force.
func (g *gate) reload(ctx context.Context) error {
	if err := g.write(); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.admin+"/v1/reload", http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		var b bytes.Buffer
		_, _ = b.ReadFrom(res.Body)
		return fmt.Errorf("reload: status %d: %s", res.StatusCode, b.String())
	}
	return nil
}

// stop ends the gate, and returns its exit code.
func (g *gate) stop(sig syscall.Signal) int {
	_ = g.cmd.Process.Signal(sig)
	select {
	case <-g.exited:
	case <-time.After(20 * time.Second):
		_ = g.cmd.Process.Kill()
		<-g.exited
	}
	return g.cmd.ProcessState.ExitCode()
}

func (g *gate) metrics(ctx context.Context) (m metrics, err error) {
	return m, get(ctx, "http://"+g.admin+"/metrics", &m)
}

// status reads that of one ingress.
func (g *gate) status(ctx context.Context, name string) (*ingressStatus, error) {
	var s struct{ Ingresses []*ingressStatus }
	if err := get(ctx, "http://"+g.admin+"/v1/status?partitions=1000&ingress="+name, &s); err != nil {
		return nil, err
	}
	for _, in := range s.Ingresses {
		if in.Name == name {
			return in, nil
		}
	}
	return nil, fmt.Errorf("the status has no ingress %s", name)
}

// journal keeps what a gate logs.
type journal struct {
	mu    sync.Mutex // guards the fields below
	lines []string
}

// Write implements io.Writer.
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(string(b)) {
		j.lines = append(j.lines, strings.TrimSpace(line))
	}
	return len(b), nil
}

// with returns the lines that have each of the texts in them.
func (j *journal) with(texts ...string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
next:
	for _, line := range j.lines {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

func (j *journal) last() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) == 0 {
		return ""
	}
	return j.lines[len(j.lines)-1]
}

// until tries for some time.
func until(d time.Duration, what string, f func() error) error {
	end := time.Now().Add(d)
	for {
		err := f()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: %w", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
