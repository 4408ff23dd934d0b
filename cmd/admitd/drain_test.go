package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// freeAddress returns an address nobody listens on, a moment ago at least.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// A drain under load cuts nothing: whatever reached the backend is answered in
// full, and the process ends with 0.
func TestDrainUnderLoad(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, fmt.Sprintf(orders, b.URL, "10s", 0))
	url := p.url("orders")
	var served atomic.Int64
	over := make(chan struct{})
	done := make(chan struct{}, 8)
	for range cap(done) {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case <-over:
					return
				default:
				}
				if a, err := get(url); err == nil && a.status == 200 {
					served.Add(1)
				}
			}
		}()
	}
	waitFor(t, "load", func() bool { return served.Load() > 100 })
	inFlight := []held{b.hold(t, url), b.hold(t, url), b.hold(t, url)}
	p.signal(syscall.SIGTERM)
	p.said("draining")
	b.release()
	for _, h := range inFlight {
		h.served(t)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d; want 0", code)
	}
	close(over)
	for range cap(done) {
		<-done
	}
	if got, want := served.Load()+int64(len(inFlight)), b.completed.Load(); got != want {
		t.Errorf("%d requests were served by the backend and %d reached their client: some were cut", want, got)
	}
}

// While it drains, neither a new file nor SIGHUP keeps it from ending or ends
// it early. The first made it wait for ever once, the second killed it.
func TestChangesWhileDraining(t *testing.T) {
	b := startBackend(t)
	configuration := fmt.Sprintf(orders, b.URL, "15s", 0)
	p := startProcess(t, configuration)
	inFlight := b.hold(t, p.url("orders"))
	p.signal(syscall.SIGTERM)
	p.said("draining")
	waitFor(t, "the drain", func() bool { status, _ := p.api("GET", "/readyz", ""); return status == 503 })
	p.write(configuration + "    mode: off\n")
	p.signal(syscall.SIGHUP)
	if status, body := p.api("POST", "/v1/reload", ""); status != 503 || !strings.Contains(body, "draining") {
		t.Errorf("reload while draining = %d %s; want 503, draining", status, body)
	}
	// A patch once was answered with 400, as if it were wrong.
	if status, body := p.api("PATCH", "/v1/ingresses/orders", `{"mode":"off"}`); status != 503 || !strings.Contains(body, "draining") {
		t.Errorf("patch while draining = %d %s; want 503, draining", status, body)
	}
	b.release()
	inFlight.served(t)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d; want 0", code)
	}
}

// A drain waits for what an ingress has in flight that a reload took away a
// moment before. It was cut off once.
func TestDrainWaitsForReplacedIngress(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, fmt.Sprintf(orders, b.URL, "15s", 0))
	inFlight := b.hold(t, p.url("orders"))
	p.put("ingresses: [ { name: jobs } ]\n")
	p.signal(syscall.SIGTERM)
	p.said("draining")
	b.release()
	inFlight.served(t)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d; want 0", code)
	}
}

// The drain has an end, and a second signal makes it now.
func TestImpatientDrains(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, fmt.Sprintf(orders, b.URL, "100ms", 0))
	b.hold(t, p.url("orders"))
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 1 {
		t.Errorf("exit code after the drain timeout %d; want 1: the drain was not clean", code)
	}
	p.said("drain was cut short")

	p = startProcess(t, fmt.Sprintf(orders, b.URL, "1h", 0))
	b.hold(t, p.url("orders"))
	p.signal(syscall.SIGINT)
	p.said("draining")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 130 {
		t.Errorf("exit code after a second signal %d; want 130", code)
	}
}

// systemd may open the sockets.
func TestInheritedSocket(t *testing.T) {
	b := startBackend(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := &process{t: t, path: filepath.Join(t.TempDir(), "admitd.yaml"), done: make(chan struct{}), more: make(chan struct{})}
	p.write(strings.Replace(fmt.Sprintf(orders, b.URL, "1s", 0), "127.0.0.1:0", "127.0.0.1:1", 1))
	p.cmd = exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=orders exec admitd serve --config "$0"`, p.path)
	p.cmd.ExtraFiles = []*os.File{file}
	p.start()
	serves(t, "http://"+ln.Addr().String())
}
