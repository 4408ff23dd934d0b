package mongobackend_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// daemon is the built binary, serving a MongoDB ingress.
type daemon struct {
	cmd         *exec.Cmd
	addr, admin string
	stderr      bytes.Buffer
}

// startDaemon builds admitd once and serves the ingress, whose further keys
// are given as YAML, six spaces deep.
func startDaemon(t *testing.T, backend, more string) *daemon {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "admitd")
	build := exec.Command("go", "build", "-o", bin, "./cmd/admitd")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	d := &daemon{addr: reserve(t), admin: reserve(t)}
	conf := filepath.Join(dir, "admitd.yaml")
	text := fmt.Sprintf("admin: { listen: %q }\nlog: { format: text }\ningresses:\n  - name: db\n    protocol: mongodb\n    listen: %s\n    backend: %s\n%s",
		d.admin, d.addr, backend, more)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.cmd = exec.Command(bin, "serve", "--config", conf)
	d.cmd.Stderr = &d.stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		if t.Failed() {
			t.Logf("daemon:\n%s", d.stderr.String())
		}
	})
	until(t, "the daemon listens", func() bool {
		c, err := net.Dial("tcp", d.addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return d
}

// reserve returns an address that was free a moment ago.
func reserve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// get reads a page of the admin port.
func (d *daemon) get(t *testing.T, path string) string {
	t.Helper()
	r, err := http.Get("http://" + d.admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Through the built binary: everything passes, every third command is refused
// and all operations succeed, the status speaks the server's names, and
// SIGTERM drains under load with exit status 0.
func TestBinary(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the daemon")
	}
	d := startDaemon(t, startBackend(t).Addr(), "    mongodb: { testCommands: true }\n    partitions: { by: database, default: { limit: { algorithm: fixed, limit: 64 } } }\n")
	e, m := monitor()
	c := connect(t, d.addr, options.Client().SetMonitor(m))
	admin := connect(t, d.addr)
	coll := c.Database("shop").Collection("orders")
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "n", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if i%2 == 1 {
			failPoint(t, admin, bson.D{{Key: "times", Value: 1}}, "find")
		}
		if err := coll.FindOne(t.Context(), bson.D{}).Err(); err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
	if n := e.take("find"); n != 30 {
		t.Errorf("find was started %d times, want 30", n)
	}
	if s := d.get(t, "/v1/status"); !strings.Contains(s, "ingressRequestRateLimiter") || !strings.Contains(s, "successfulAdmissions") {
		t.Errorf("/v1/status does not speak the server's names:\n%s", s)
	}
	if s := d.get(t, "/metrics"); !strings.Contains(s, `generation="2"`) {
		t.Errorf("/metrics does not count driver generations")
	}

	var good atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if coll.FindOne(ctx, bson.D{}).Err() == nil {
					good.Add(1)
				}
			}
		})
	}
	reach(t, &good, 200)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- d.cmd.Wait() }()
	select {
	case err := <-exited:
		if err != nil {
			t.Errorf("exit after SIGTERM: %v, want status 0", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the drain does not end")
	}
	stop()
	wg.Wait()
}

// Through the built binary: an ingress without tokens refuses with the real
// error, three times for a driver that retries.
func TestBinaryRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the daemon")
	}
	d := startDaemon(t, startBackend(t).Addr(), "    requests: { rate: 0.001, burstSeconds: 1 }\n")
	e, m := monitor()
	c := connect(t, d.addr, options.Client().SetMonitor(m))
	_ = c.Ping(t.Context(), nil) // takes the only token
	overloaded(t, c.Database("shop").Collection("orders").FindOne(t.Context(), bson.D{}).Err(), true)
	if n := e.take("find"); n != 3 {
		t.Errorf("find was started %d times, want 3", n)
	}
}
