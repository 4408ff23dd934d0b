package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// world is a gate in a process of its own, with its backend and its load.
type world struct {
	incident

	dir     string
	backend *backend
	gate    string // address of the ingress
	admin   string
	cmd     *exec.Cmd
	exited  chan struct{}
	client  *http.Client
	rate    atomic.Int64 // requests per second
	alerts  *prometheus
	stop    context.CancelFunc // of the load
	undo    []func()
	args    []string // more of them for the gate
	limit   []string // a command that starts the gate within bounds
	extra   string   // more keys of the ingress
	top     string   // more keys of the configuration
	tls     bool
	redis   *redisAt
	release context.CancelFunc // of what the incident takes

	nonsense struct {
		mu   sync.Mutex // guards the fields below
		read int
		err  error
	}
}

// calmRate is how many requests per second there are in calm.
const calmRate = 40

// open starts the backend, the gate and the load.
func (w *world) open(ctx context.Context) (err error) {
	if w.dir, err = os.MkdirTemp("", "incidents"); err != nil {
		return err
	}
	if w.backend, err = newBackend(); err != nil {
		return err
	}
	if w.prepare != nil {
		if err = w.prepare(ctx, w); err != nil {
			return err
		}
	}
	if err = w.start(ctx); err != nil {
		return err
	}
	if w.client == nil {
		w.client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	}
	running, stop := context.WithCancel(ctx)
	w.stop = stop
	w.rate.Store(calmRate)
	go w.press(running)
	go w.proofread(running)
	return nil
}

// start writes the configuration, starts the gate and waits until it serves.
func (w *world) start(ctx context.Context) error {
	file := filepath.Join(w.dir, "gate.yaml")
	config := fmt.Sprintf("admin: { listen: %q }\nlog: { level: warn, format: text }\n%s\ningresses:\n  - { name: orders, protocol: http, listen: %q, backend: %q, backendTimeout: 10s%s }\n",
		w.admin, w.top, w.gate, "http://"+w.backend.address, w.extra)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(w.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	args := slices.Concat(w.limit, []string{os.Getenv("PROVE_ADMITD"), "serve", "--config", file}, w.args)
	w.cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	w.cmd.Stderr, w.cmd.Stdout = log, log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.cmd.Start(); err != nil {
		return err
	}
	w.exited = make(chan struct{})
	go func() { defer close(w.exited); _ = w.cmd.Wait() }()
	_, err = until(ctx, 20*time.Second, func() (string, error) { _, _, err := w.ask("/readyz"); return "", err })
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		err = fmt.Errorf("the gate does not serve: %w; its log: %s", err, text)
	}
	return err
}

// close ends everything.
func (w *world) close() {
	if w.stop != nil {
		w.stop()
	}
	if w.cmd != nil && w.exited != nil {
		_ = w.cmd.Process.Signal(syscall.SIGCONT)
		_ = w.cmd.Process.Kill()
		<-w.exited
	}
	if w.backend != nil {
		w.backend.close()
	}
	for _, undo := range w.undo {
		undo()
	}
	_ = os.RemoveAll(w.dir)
}

// given are the ports that freePort has returned.
var given sync.Map //nolint:gochecknoglobals // one process, one set of ports

// freePort returns an address that nobody listens on and that it has not returned before,
// below the ports from which connections are made.
func freePort() string {
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		ln, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		_ = ln.Close()
		if _, taken := given.LoadOrStore(address, true); !taken {
			return address
		}
	}
}

// press sends requests of three tenants, evenly, whether they are answered or not.
func (w *world) press(ctx context.Context) {
	scheme := "http://"
	if w.tls {
		scheme = "https://"
	}
	room := make(chan struct{}, 400)
	for n := 0; ctx.Err() == nil; n++ {
		_ = sleep(ctx, time.Second/time.Duration(w.rate.Load()))
		tenant := []string{"acme", "initech", "globex"}[n%3]
		if w.storm && w.rate.Load() > calmRate {
			tenant = "acme"
		}
		select {
		case room <- struct{}{}:
		default:
			continue
		}
		go func() {
			defer func() { <-room }()
			for attempt := 1; w.request(ctx, scheme+w.gate+"/", tenant, attempt) && attempt <= w.retries; attempt++ {
				_ = sleep(ctx, 50*time.Millisecond)
			}
		}()
	}
}

// request sends one attempt at a request and reports whether the gate refused it.
func (w *world) request(ctx context.Context, url, tenant string, attempt int) (refused bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	r.Header.Set("X-Tenant", tenant)
	if w.retries > 0 {
		r.Header.Set("X-Admitd-Attempt", strconv.Itoa(attempt))
	}
	res, err := w.client.Do(r)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.Header.Get("X-Admitd-Reason") != ""
}

// port asks the admin port.
var port = &http.Client{Timeout: 10 * time.Second} //nolint:gochecknoglobals // a client

// ask reads a path of the admin port.
func (w *world) ask(path string) (code int, body string, err error) {
	res, err := port.Get("http://" + w.admin + path)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// send changes something over the admin port.
func (w *world) send(method, path, body string) (string, error) {
	r, err := http.NewRequest(method, "http://"+w.admin+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := port.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if res.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", res.Status, b)
	}
	return string(b), err
}

// verdict is what the status says of the ingress.
type verdict struct{ Level, Text string }

// verdict reads it.
func (w *world) verdict() (v verdict, err error) {
	_, body, err := w.ask("/v1/status")
	if err != nil {
		return v, err
	}
	var d struct{ Ingresses []struct{ Verdict verdict } }
	if err := json.Unmarshal([]byte(body), &d); err != nil || len(d.Ingresses) != 1 {
		return v, fmt.Errorf("the status is %s", body)
	}
	return d.Ingresses[0].Verdict, nil
}

// match reports whether a text is as wanted.
func match(text, want string) (string, error) {
	if ok, err := regexp.MatchString(want, text); err != nil || !ok {
		return text, fmt.Errorf("want %q, got %q", want, text)
	}
	return text, nil
}

// calmly is the verdict where all is well. On a busy machine it may add that the gate
// waits for a processor.
const calmly = `^Everything is admitted: \d+/s\.`

// isCalm sees that nothing is wrong.
func (w *world) isCalm() (string, error) {
	v, err := w.verdict()
	if err != nil {
		return "", err
	}
	if text, err := match(v.Text, calmly); err != nil {
		return text, err
	}
	if strings.Contains(v.Text, "is slow") {
		return v.Text, errors.New("it is slow: " + v.Text)
	}
	code, body, err := w.ask("/readyz")
	if err != nil || code != http.StatusOK || strings.Contains(body, "detail") {
		return v.Text, errors.Join(err, fmt.Errorf("readyz: %d %s", code, body))
	}
	return v.Text, nil
}

func (w *world) verdictSays() (string, error) {
	v, err := w.verdict()
	if err != nil {
		return "", err
	}
	if w.level != v.Level {
		return v.Text, fmt.Errorf("want level %q, got %q: %s", w.level, v.Level, v.Text)
	}
	return match(v.Text, w.says)
}

// topSays sees that top prints the verdict.
func (w *world) topSays() (string, error) {
	var out bytes.Buffer
	cmd := exec.Command(os.Getenv("PROVE_ADMITD"), "top", "--once", "--interval", "200ms", "--admin", w.admin)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, out.String())
	}
	w.proof("top", out.String())
	for line := range strings.Lines(out.String()) {
		if said, err := match(strings.TrimSpace(line), w.says); err == nil {
			return said, nil
		}
	}
	return match(out.String(), w.says)
}

func (w *world) explainSays() (string, error) {
	out, err := exec.Command(os.Getenv("PROVE_ADMITD"), "explain", "--admin", w.admin, "orders", "acme").CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%w: %s", err, out)
	}
	return match(string(out), w.explain)
}

func (w *world) readySays() (string, error) {
	_, body, err := w.ask("/readyz")
	if err != nil {
		return "", err
	}
	if w.ready == "" { // nothing is wrong that a balancer or an operator has to know
		return match(body, `^\{"status":"ready"\}\s*$`)
	}
	return match(body, w.ready)
}

func (w *world) metricTells() (string, error) {
	v, err := w.metric(w.metricName)
	if err != nil {
		return "", err
	}
	if !w.metricIs(v) {
		return fmt.Sprint(v), fmt.Errorf("%s is %v", w.metricName, v)
	}
	return fmt.Sprintf("%s %v", w.metricName, v), nil
}

func (w *world) metricIsBack() (string, error) {
	v, err := w.metric(w.metricName)
	if err == nil && w.metricIs(v) {
		err = fmt.Errorf("%s is %v", w.metricName, v)
	}
	return fmt.Sprintf("%s %v", w.metricName, v), err
}

// metric adds up the series that begin so.
func (w *world) metric(prefix string) (sum float64, err error) {
	_, body, err := w.ask("/metrics")
	if err != nil {
		return 0, err
	}
	found := false
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		fields := strings.Fields(line)
		v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, err
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, errors.New("there is no " + prefix)
	}
	return sum, nil
}

// nonsense is what no text may have: figures that are none, shares of nothing, and more
// digits than people read.
var nonsense = regexp.MustCompile(`NaN|Inf|null|%!|\b0\.0×|% of 0(\.0)?/s|-\d+(\.\d+)? (ms|s|%)|\d{1,3}\.\d{3,} ?(ms|s\b|/s|%|×)`)

// proof notes nonsense in a text.
func (w *world) proof(where, text string) {
	w.nonsense.mu.Lock()
	defer w.nonsense.mu.Unlock()
	w.nonsense.read++
	if bad := nonsense.FindString(text); bad != "" && w.nonsense.err == nil {
		w.nonsense.err = fmt.Errorf("%s says %q: %s", where, bad, text)
	}
}

// proofread reads every text a few times a second.
func (w *world) proofread(ctx context.Context) {
	for ctx.Err() == nil {
		_, body, err := w.ask("/v1/status")
		var d struct {
			Ingresses []struct {
				Verdict    verdict
				Forecast   string
				Partitions []struct{ Explain string }
			}
		}
		if err == nil && json.Unmarshal([]byte(body), &d) == nil {
			for _, in := range d.Ingresses {
				w.proof("the verdict", in.Verdict.Text)
				w.proof("the forecast", in.Forecast)
				for _, p := range in.Partitions {
					w.proof("explain", p.Explain)
				}
			}
		}
		if code, body, err := w.ask("/v1/explain/orders/acme"); err == nil && code == http.StatusOK {
			var e struct{ Text string }
			if json.Unmarshal([]byte(body), &e) == nil {
				w.proof("explain", e.Text)
			}
		}
		_ = sleep(ctx, 500*time.Millisecond)
	}
}
