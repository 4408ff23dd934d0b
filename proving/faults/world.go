package main

import (
	"bufio"
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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// world is a gate in a process of its own, a backend behind a wire that fails,
// and another one, with an ingress of its own, that does not.
type world struct {
	protocol
	dir    string
	wire   *wire
	gate   string // the address of the ingress whose backend fails
	other  string // and of the one whose does not
	admin  string
	cmd    *exec.Cmd
	exited chan struct{}
	log    *lines
	env    []string
	limit  []string // a command that starts the gate within bounds
	extra  string   // top level configuration
	tls    bool     // the failing ingress wants TLS of its backend
	spare  string   // the backend that does not fail
}

// lines counts the lines of the gate's log and keeps the last.
type lines struct {
	mu   sync.Mutex // guards the fields below
	n    int
	last string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += bytes.Count(b, []byte("\n"))
	l.last = string(b)
	return len(b), nil
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// freePort returns an address that nobody listens on, below the ports from which
// connections are made: one of these could take it before the gate does.
func freePort() string {
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		if ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address); err == nil {
			_ = ln.Close()
			return address
		}
	}
}

// newWorld starts the backends; start starts the gate.
func newWorld(ctx context.Context, p protocol) (*world, error) {
	w := &world{protocol: p, gate: freePort(), other: freePort(), admin: freePort(), log: &lines{}}
	var err error
	if w.dir, err = os.MkdirTemp("", "faults"); err != nil {
		return nil, err
	}
	var backends [2]net.Listener
	for i := range backends {
		if backends[i], err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	if w.wire, err = newWire(backends[0].Addr().String()); err != nil {
		return nil, err
	}
	w.spare = backends[1].Addr().String()
	go p.serve(ctx, backends[0], w.wire.address)
	go p.serve(ctx, backends[1], w.spare)
	return w, w.configure(w.wire.address, w.spare, 50)
}

// configure writes the configuration.
func (w *world) configure(backend, other string, limit int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "admin: { listen: %q }\nlog: { level: warn, format: text }\n%s\ningresses:\n", w.admin, w.extra)
	for i, in := range [][3]string{{"failing", w.gate, backend}, {"other", w.other, other}} {
		scheme, options := "", ""
		if w.options != "" {
			options = ", " + w.options
		}
		secure := w.tls && i == 0
		switch {
		case w.name == "http" && secure:
			scheme = "https://"
		case w.name == "http":
			scheme = "http://"
		case secure:
			options += ", backendTLS: { enabled: true }"
		}
		fmt.Fprintf(&b, "  - { name: %s, protocol: %s, listen: %q, backend: %q, partitions: { default: { limit: { algorithm: fixed, limit: %d }, queue: { depth: 100, maxWait: 1s } } }%s }\n",
			in[0], w.name, in[1], scheme+in[2], limit, options)
	}
	file := filepath.Join(w.dir, "gate.yaml")
	if err := os.WriteFile(file+".new", []byte(b.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// start starts the gate and waits until it is ready.
func (w *world) start(ctx context.Context) error {
	args := append(append([]string{}, w.limit...), os.Getenv("ADMITD"), "serve", "--config", filepath.Join(w.dir, "gate.yaml"))
	w.cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	w.cmd.Env = append(os.Environ(), w.env...)
	w.cmd.Stderr, w.cmd.Stdout = w.log, w.log
	if err := w.cmd.Start(); err != nil {
		return err
	}
	w.exited = make(chan struct{})
	go func() {
		_ = w.cmd.Wait() // the exit code is read from its state
		close(w.exited)
	}()
	return w.until(10*time.Second, "the gate is ready", func() error {
		_, err := w.metric(ctx, "admitd_build_info")
		return err
	})
}

// stop ends the gate and returns its exit code.
func (w *world) stop(sig syscall.Signal) (int, error) {
	_ = w.cmd.Process.Signal(sig)
	select {
	case <-w.exited:
		return w.cmd.ProcessState.ExitCode(), nil
	case <-time.After(15 * time.Second):
		_ = w.cmd.Process.Kill()
		<-w.exited
		return -1, errors.New("the gate did not end within 15 s")
	}
}

// metric sums the samples of a metric.
func (w *world) metric(ctx context.Context, name string) (sum float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	found := false
	for s := bufio.NewScanner(res.Body); s.Scan(); {
		line := s.Text()
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") {
			continue
		}
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, err
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, fmt.Errorf("there is no metric %s", name)
	}
	return sum, nil
}

// until tries for some time.
func (w *world) until(d time.Duration, what string, f func() error) error {
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

// once asks with a bound on time.
func (w *world) once(ctx context.Context, address string, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return w.ask(ctx, address)
}

// load is clients that ask in a loop.
type load struct {
	asked, failed atomic.Int64
	last          atomic.Value // the last error, as text
	stop          context.CancelFunc
	wg            sync.WaitGroup
}

// ask starts n clients of an ingress, each of which waits for at most d.
func (w *world) press(ctx context.Context, address string, n int, d time.Duration) *load {
	l := &load{}
	ctx, l.stop = context.WithCancel(ctx)
	for range n {
		l.wg.Go(func() {
			for ctx.Err() == nil {
				err := w.once(ctx, address, d)
				if ctx.Err() != nil {
					return
				}
				l.asked.Add(1)
				if err != nil {
					l.failed.Add(1)
					l.last.Store(err.Error())
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	return l
}

func (l *load) end() {
	l.stop()
	l.wg.Wait()
}
