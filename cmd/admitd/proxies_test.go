package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// proxies are the proxies that people run already, as examples/proxies configures
// them.
func proxies() map[string]struct {
	files []string
	args  func(dir string) []string
	away  int // what is answered while admitd is away
} {
	type row = struct {
		files []string
		args  func(dir string) []string
		away  int
	}
	return map[string]row{
		"nginx": {[]string{"nginx.conf"}, func(dir string) []string {
			return []string{"-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr", "-g", "daemon off; pid nginx.pid;"}
		}, http.StatusOK},
		"haproxy": {[]string{"haproxy.cfg", "admitd.lua"}, func(dir string) []string {
			return []string{"-db", "-C", dir, "-f", filepath.Join(dir, "haproxy.cfg")}
		}, http.StatusOK},
		"caddy": {[]string{"Caddyfile"}, func(dir string) []string {
			return []string{"run", "--adapter", "caddyfile", "--config", filepath.Join(dir, "Caddyfile")}
		}, http.StatusBadGateway},
	}
}

// shop is a backend that counts its requests and forbids one path.
func shop(t *testing.T) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	served := &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if r.URL.Path == "/forbidden" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(s.Close)
	return s, served
}

// example copies a file of examples/proxies with the addresses of a test.
func example(t *testing.T, dir, name string, addresses ...string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../examples/proxies", name))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(addresses...).Replace(string(b))
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Unmodified proxies ask before they pass a request on, and their clients are told
// what the clients of a gate are told.
func TestProxiesAsk(t *testing.T) {
	for name, proxy := range proxies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(name)
			if err != nil {
				if program, err = exec.LookPath("/usr/sbin/" + name); err != nil {
					t.Skipf("%s is not installed: apt-get install %s", name, name)
				}
			}
			backend, served := shop(t)
			config, err := os.ReadFile("../../examples/proxies/admitd.yaml")
			if err != nil {
				t.Fatal(err)
			}
			p := startProcess(t, strings.Replace(string(config), "127.0.0.1:9463", "127.0.0.1:0", 1))
			front, dir := freeAddress(t), t.TempDir()
			for _, file := range proxy.files {
				example(t, dir, file, "127.0.0.1:8080", front, "127.0.0.1:9000", backend.Listener.Addr().String(),
					"127.0.0.1:9463", strings.TrimPrefix(p.decisions(), "http://"))
			}
			startProxy(t, exec.Command(program, proxy.args(dir)...), dir, front)
			asProxied(t, p, "http://"+front, served)
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-p.done
			if a := ask(t, "GET", "http://"+front+"/", "", "X-Tenant", "slow"); a.status != proxy.away {
				t.Errorf("with admitd away = %d %s; want %d", a.status, a.body, proxy.away)
			}
		})
	}
}

// startProxy runs a proxy until the test ends and waits until it listens.
func startProxy(t *testing.T, cmd *exec.Cmd, dir, front string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // nginx takes its workers along
		_ = cmd.Wait()
		if b, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s", b)
		}
	})
	waitFor(t, front+" to listen", func() bool {
		c, err := net.Dial("tcp", front)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
}

// asProxied asks as clients of a proxy do.
func asProxied(t *testing.T, p *process, url string, served *atomic.Int64) {
	t.Helper()
	if a := ask(t, "POST", url+"/orders?x=1", `{"a": 1}`, "X-Tenant", "free"); a.status != http.StatusOK || string(a.body) != `{"a": 1}` {
		t.Fatalf("a request within its rate = %d %s; want it served, body and all", a.status, a.body)
	}
	if a := ask(t, "GET", url+"/", "", "X-Tenant", "slow"); a.status != http.StatusOK {
		t.Errorf("the first of a slow tenant = %d; want 200", a.status)
	}
	before := served.Load()
	a := ask(t, "GET", url+"/", "", "X-Tenant", "slow")
	if a.status != http.StatusTooManyRequests || a.header.Get("X-Admitd-Reason") != "request_rate" || a.header.Get("Retry-After") == "" ||
		a.header.Get("RateLimit-Policy") == "" || a.document(t)["reason"] != "request_rate" {
		t.Errorf("the second = %d %v %s; want 429 with reason, waits and a body that says why", a.status, a.header, a.body)
	}
	// The header that a proxy is trusted to write cannot be the client's.
	if a := ask(t, "GET", url+"/", "", "X-Tenant", "slow", "X-Forwarded-Uri", "/health", "X-Forwarded-Method", "GET"); a.status != http.StatusTooManyRequests {
		t.Errorf("a client that claims an exempt path = %d; want 429", a.status)
	}
	if a := ask(t, "GET", url+"/health", "", "X-Tenant", "slow"); a.status != http.StatusOK {
		t.Errorf("an exempt path = %d; want 200", a.status)
	}
	if got := served.Load() - before; got != 1 {
		t.Errorf("the backend saw %d requests; want the exempt one", got)
	}
	held := ask(t, "POST", p.decisions()+"/v1/admissions", `{"ingress": "shop", "partition": "narrow", "ttlMS": 600000}`)
	if held.status != http.StatusCreated {
		t.Fatal(fmt.Errorf("admission = %d %s", held.status, held.body))
	}
	if a := ask(t, "GET", url+"/", "", "X-Tenant", "narrow"); a.status != http.StatusServiceUnavailable || a.header.Get("X-Admitd-Reason") != "concurrency_limit" {
		t.Errorf("a full partition = %d %v; want 503 and why", a.status, a.header)
	}
	if a := ask(t, "GET", url+"/forbidden", "", "X-Tenant", "free"); a.status != http.StatusForbidden || a.header.Get("X-Admitd-Reason") != "" {
		t.Errorf("the backend's own 403 = %d %v; want it as it is", a.status, a.header)
	}
}
