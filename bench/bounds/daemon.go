package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// configuration has one gate before a good backend, for other traffic, and one
// that is abused. Its verbs: the good backend, the bad one, further keys.
const configuration = `
admin: { listen: "127.0.0.1:0" }
log: { level: info, format: json }
ingresses:
  - name: others
    listen: 127.0.0.1:0
    backend: http://%s
  - name: abused
    listen: 127.0.0.1:0
    backend: http://%s
    backendTimeout: 1s
    maxBodyBytes: 1MiB
    partitions: { by: "header:X-Tenant", max: 1000 }
    http: { headerTimeout: 2s }
%s`

// daemon is the measured process.
type daemon struct {
	cmd                   *exec.Cmd
	dir                   string
	admin, others, abused string // addresses
	panics                chan string
	done                  chan struct{}
}

// startDaemon runs the binary until it serves.
func startDaemon(ctx context.Context, binary, text string) (*daemon, error) {
	dir, err := os.MkdirTemp("", "bounds")
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir, panics: make(chan string, 1), done: make(chan struct{})}
	file := filepath.Join(dir, "admitd.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	d.cmd = exec.CommandContext(context.WithoutCancel(ctx), binary, "serve", "--config", file)
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	serves := make(chan struct{})
	go d.follow(stderr, serves)
	select {
	case <-serves:
		return d, nil
	case <-d.done:
		return nil, errors.New("admitd did not start")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// follow reads the log.
func (d *daemon) follow(stderr io.Reader, serves chan<- struct{}) {
	defer close(d.done)
	for s := bufio.NewScanner(stderr); s.Scan(); {
		var l struct{ Msg, Ingress, Address, Admin string }
		_ = json.Unmarshal(s.Bytes(), &l) // other lines are looked at as text
		switch {
		case l.Msg == "ingress listens" && l.Ingress == "others":
			d.others = l.Address
		case l.Msg == "ingress listens":
			d.abused = l.Address
		case l.Msg == "admitd serves":
			d.admin = l.Admin
			close(serves)
		case strings.Contains(s.Text(), "panic"):
			select {
			case d.panics <- s.Text():
			default:
			}
		}
	}
	_ = d.cmd.Wait() // the exit code is read from its state
}

// stop drains the daemon, which must end by itself with 0 and without a panic.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		return errors.New("the drain did not end")
	}
	select {
	case text := <-d.panics:
		return fmt.Errorf("panicked: %s", text)
	default:
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

// kill ends it in any case.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may be gone
	<-d.done
	_ = os.RemoveAll(d.dir)
}

// get is c.Get; the client's timeout bounds it.
func get(ctx context.Context, c *http.Client, url string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return c.Do(r)
}

// rss reads the resident memory in bytes; 0 when the process is gone.
func (d *daemon) rss() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// metric reads one series; -1 when there is none.
func (d *daemon) metric(ctx context.Context, series string) float64 {
	res, err := get(ctx, &http.Client{Timeout: 5 * time.Second}, "http://"+d.admin+"/metrics")
	if err != nil {
		return -1
	}
	defer res.Body.Close()
	for s := bufio.NewScanner(res.Body); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), series+" "); ok {
			v, err := strconv.ParseFloat(rest, 64)
			if err == nil {
				return v
			}
		}
	}
	return -1
}

// settled waits until goroutines and memory stop falling, for at most ten
// seconds, and returns what is left.
func (d *daemon) settled(ctx context.Context) (rss int64, goroutines int) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	rss, goroutines = d.rss(), int(d.metric(ctx, "go_goroutines"))
	for range 10 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return rss, goroutines
		}
		r, g := d.rss(), int(d.metric(ctx, "go_goroutines"))
		if g >= goroutines && r >= rss {
			return min(r, rss), min(g, goroutines)
		}
		rss, goroutines = r, g
	}
	return rss, goroutines
}

// watcher samples the daemon and sends other traffic.
type watcher struct {
	rss        int64
	goroutines int
	others     tally

	over  chan struct{}
	ended chan struct{}
}

// watch samples every 100 ms and asks the other gate as often.
func watch(ctx context.Context, d *daemon) *watcher {
	w := &watcher{over: make(chan struct{}), ended: make(chan struct{})}
	go w.loop(ctx, d)
	return w
}

// loop is the watcher.
func (w *watcher) loop(ctx context.Context, d *daemon) {
	defer close(w.ended)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	for i := 0; ; i++ {
		w.rss = max(w.rss, d.rss())
		if i%5 == 0 {
			w.goroutines = max(w.goroutines, int(d.metric(ctx, "go_goroutines")))
		}
		w.ask(ctx, c, "http://"+d.others)
		select {
		case <-ctx.Done():
			return
		case <-w.over:
			w.goroutines = max(w.goroutines, int(d.metric(ctx, "go_goroutines")))
			return
		case <-ticker.C:
		}
	}
}

// ask sends one request of other traffic.
func (w *watcher) ask(ctx context.Context, c *http.Client, url string) {
	start := time.Now()
	res, err := get(ctx, c, url)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			err = errors.New(res.Status)
		}
	}
	w.others.times = append(w.others.times, float64(time.Since(start))/1e6)
	if err != nil {
		w.others.failed++
		return
	}
	w.others.ok++
}

// stop ends the sampling.
func (w *watcher) stop() { close(w.over); <-w.ended }
