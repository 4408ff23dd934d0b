package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	dir     string
	wire    *wire
	backend string // what the ingress that fails has behind it: the wire, mostly
	spare   string // and the one that does not
	gate    string // the address of the ingress whose backend fails
	other   string // and of the one whose does not
	admin   string
	cmd     *exec.Cmd
	began   time.Time
	exited  chan struct{}
	log     *lines
	env     []string
	args    []string // more of them for the gate
	limit   []string // a command that starts the gate within bounds
	extra   string   // top level configuration
	failing string   // more options of the ingress that fails
	tls     bool     // it wants TLS of its backend
	undo    []func() // what the row has to put back
	island  *island  // where the backend lives, in some rows
}

// lines keeps what the gate logs, as far as one may want to read it.
type lines struct {
	mu   sync.Mutex // guards the fields below
	n    int
	text []string
}

const maxKept = 1000

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(string(b)) {
		l.n++
		if len(l.text) < maxKept {
			l.text = append(l.text, strings.TrimSpace(line))
		}
	}
	return len(b), nil
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// say returns how many lines have the text in them, and the last of all.
func (l *lines) say(text string) (n int, last string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, last = range l.text {
		if strings.Contains(last, text) {
			n++
		}
	}
	return n, last
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
	w.backend, w.spare = w.wire.address, backends[1].Addr().String()
	go p.serve(ctx, backends[0], w.wire.address)
	go p.serve(ctx, backends[1], w.spare)
	return w, nil
}

// configure writes the configuration.
func (w *world) configure(limit int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "admin: { listen: %q }\nlog: { level: warn, format: text }\n%s\ningresses:\n", w.admin, w.extra)
	for i, in := range [][3]string{{"failing", w.gate, w.backend}, {"other", w.other, w.spare}} {
		scheme, options := "", ""
		if w.options != "" {
			options = ", " + w.options
		}
		if i == 0 && w.failing != "" {
			options += ", " + w.failing
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
	args := slices.Concat(w.limit, []string{os.Getenv("ADMITD"), "serve", "--config", filepath.Join(w.dir, "gate.yaml")}, w.args)
	w.cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	w.cmd.Env = append(os.Environ(), w.env...)
	w.cmd.Stderr, w.cmd.Stdout = w.log, w.log
	w.began = time.Now()
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

// close ends what the row has left behind.
func (w *world) close() {
	if w.cmd != nil && w.exited != nil {
		_, _ = w.stop(syscall.SIGKILL)
	}
	for _, undo := range slices.Backward(w.undo) {
		undo()
	}
	_ = os.RemoveAll(w.dir)
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

// metric sums the samples whose names and labels begin so.
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
		if rest, ok := strings.CutPrefix(line, name); !ok || !strings.ContainsRune("{, ", rune(rest[0])) {
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
