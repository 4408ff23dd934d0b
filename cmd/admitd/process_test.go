package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for something that must come.
const patience = time.Minute

// process is the real command in a process of its own.
type process struct {
	t     *testing.T
	path  string // of its configuration
	cmd   *exec.Cmd
	admin string
	done  chan struct{} // closed when it has exited

	mu    sync.Mutex // guards the fields below
	lines []logLine
	more  chan struct{} // closed at the next line
}

// logLine is one line of the log, taken apart.
type logLine map[string]any

// is reports whether the line says msg of the ingress; "" = of any.
func (l logLine) is(msg, ingress string) bool {
	return l["msg"] == msg && (ingress == "" || l["ingress"] == ingress)
}

// startProcess runs serve on a configuration. The admin port and the log are set
// by the environment.
func startProcess(t *testing.T, configuration string, args ...string) *process {
	t.Helper()
	p := newProcess(t, configuration, args...)
	p.start()
	return p
}

// newProcess is startProcess without a start.
func newProcess(t *testing.T, configuration string, args ...string) *process {
	t.Helper()
	p := &process{t: t, path: filepath.Join(t.TempDir(), "admitd.yaml"), done: make(chan struct{}), more: make(chan struct{})}
	p.write(configuration)
	p.cmd = exec.Command("admitd", append([]string{"serve", "--config", p.path}, args...)...)
	return p
}

// start runs p.cmd and waits until it serves.
func (p *process) start() {
	p.t.Helper()
	p.launch()
	p.admin, _ = p.line("to serve", func(l logLine) bool { return l.is("admitd serves", "") })["admin"].(string)
}

// launch runs p.cmd.
func (p *process) launch() {
	p.t.Helper()
	p.cmd.Env = append(os.Environ(), "ADMITD_ADMIN__LISTEN=127.0.0.1:0", "ADMITD_LOG__FORMAT=json")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go p.follow(stderr)
	p.t.Cleanup(p.end)
}

// follow reads the log to its end and then waits for the process.
func (p *process) follow(stderr io.Reader) {
	defer close(p.done)
	for s := bufio.NewScanner(stderr); s.Scan(); {
		var l logLine
		if json.Unmarshal(s.Bytes(), &l) != nil {
			l = logLine{"raw": s.Text()}
		}
		p.mu.Lock()
		p.lines = append(p.lines, l)
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
	_ = p.cmd.Wait() // the exit code is read from its state
}

// end kills what still runs and shows the log of a test that failed.
func (p *process) end() {
	_ = p.cmd.Process.Kill() // it may have exited
	<-p.done
	if p.t.Failed() {
		for _, l := range p.lines {
			p.t.Log(l)
		}
	}
}

// line waits for a line of the log and returns the first that matches.
func (p *process) line(what string, match func(logLine) bool) logLine {
	p.t.Helper()
	deadline := time.After(patience)
	for seen, last := 0, false; ; {
		p.mu.Lock()
		lines, more := p.lines, p.more
		p.mu.Unlock()
		for ; seen < len(lines); seen++ {
			if match(lines[seen]) {
				return lines[seen]
			}
		}
		if last {
			p.t.Fatalf("waited for admitd %s; it exited", what)
		}
		select {
		case <-more:
		case <-p.done:
			last = true
		case <-deadline:
			p.t.Fatalf("waited %v for admitd %s", patience, what)
		}
	}
}

// said waits for a message.
func (p *process) said(msg string) {
	p.t.Helper()
	p.line("to say "+msg, func(l logLine) bool { return l.is(msg, "") })
}

// all returns the lines so far that say msg of the ingress; "" = of any.
func (p *process) all(msg, ingress string) (lines []logLine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if l.is(msg, ingress) {
			lines = append(lines, l)
		}
	}
	return lines
}

// count returns how often a message was logged so far.
func (p *process) count(msg string) int { return len(p.all(msg, "")) }

// url returns where an ingress listens.
func (p *process) url(ingress string) string {
	p.t.Helper()
	l := p.line("to listen for "+ingress, func(l logLine) bool { return l.is("ingress listens", ingress) })
	return fmt.Sprint("http://", l["address"])
}

// write replaces the configuration as deployments do: by a rename.
func (p *process) write(configuration string) {
	p.t.Helper()
	next := p.path + ".next"
	if err := os.WriteFile(next, []byte(configuration), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(next, p.path); err != nil {
		p.t.Fatal(err)
	}
}

// put writes the configuration and waits until it is in force.
func (p *process) put(configuration string) {
	p.t.Helper()
	before := p.count("configuration is in force")
	p.write(configuration)
	waitFor(p.t, "the configuration to be in force", func() bool { return p.count("configuration is in force") > before })
}

// signal sends a signal.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for the end and returns the exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("admitd runs on %v after it was to end", patience)
		return 0
	}
}

// api asks the admin port.
func (p *process) api(method, path, body string) (status int, answer string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.admin+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// metric reads one series, such as admitd_fallback_active{ingress="orders"}; ok
// is false when there is none.
func (p *process) metric(series string) (value float64, ok bool) {
	p.t.Helper()
	_, text := p.api(http.MethodGet, "/metrics", "")
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, series+" "); found {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return v, err == nil
		}
	}
	return 0, false
}

// becomes waits for a series to have a value.
func (p *process) becomes(series string, want float64) {
	p.t.Helper()
	waitFor(p.t, fmt.Sprint(series, " to be ", want), func() bool {
		got, ok := p.metric(series)
		return ok && got == want
	})
}

// answer is an HTTP answer, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// document reads the body as the JSON of a refusal.
func (a *answer) document(t *testing.T) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.NewDecoder(bytes.NewReader(a.body)).Decode(&doc); err != nil {
		t.Fatalf("status %d, body is no document: %v\n%s", a.status, err, a.body)
	}
	return doc
}

// get sends one request on a connection of its own.
func get(url string, fields ...string) (*answer, error) {
	r, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	return send(&http.Client{Transport: transport, Timeout: patience}, r)
}

// send sends a request and reads the answer to its end.
func send(c *http.Client, r *http.Request) (*answer, error) {
	res, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return &answer{status: res.StatusCode, header: res.Header, body: b}, err
}

// mustGet is get for requests that must be answered.
func mustGet(t *testing.T, url string, fields ...string) *answer {
	t.Helper()
	a, err := get(url, fields...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
