package mongogate_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/internal/modelmongo"
	"github.com/admitd/admitd/limiter"
)

// The cost of the gate is measured between processes, so that the processor
// time of the gate is its own: this binary runs itself as the backend, as a
// proxy that only copies, as a gate that admits, and as one that refuses.
//
//	ADMITD_BENCH=1 go test -run TestCost -v ./ingress/mongogate
const roleVar = "MONGOGATE_BENCH_ROLE"

// TestRole is no test: it plays a role for TestCost in a process of its own.
func TestRole(t *testing.T) {
	role := os.Getenv(roleVar)
	if role == "" {
		t.Skip("plays a role for TestCost")
	}
	if err := play(role); err != nil {
		t.Fatal(err)
	}
}

// play runs one role: it writes its address to descriptor 3 and serves until
// stdin ends.
func play(role string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := os.NewFile(3, "address").WriteString(l.Addr().String() + "\n"); err != nil {
		return err
	}
	role, backend, _ := strings.Cut(role, " ")
	go func() {
		switch role {
		case "backend":
			err = modelmongo.New(1, 0).Serve(ctx, l)
		case "copy":
			err = copyProxy(l, backend)
		case "gate":
			err = gateProxy(ctx, l, backend, &limiter.Policy{
				Rate:    limiter.Rate{PerSecond: 1e9},
				Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(1000) }},
			})
		case "refuse":
			err = gateProxy(ctx, l, backend, &limiter.Policy{Rate: limiter.Rate{PerSecond: 1e-6}})
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return err
}

// fixed is a limit that never moves.
type fixed int

func (f fixed) Current() int                          { return int(f) }
func (fixed) Observe(int64, time.Duration, int, bool) {}

func gateProxy(ctx context.Context, l net.Listener, backend string, p *limiter.Policy) error {
	s, err := mongogate.New(limiter.New("bench", p, limiter.Options{}), mongogate.Options{
		Backends: []string{backend}, PartitionBy: []string{"database"},
	})
	if err != nil {
		return err
	}
	return ingress.NewServer("bench", s, ingress.Options{}).Serve(ctx, l)
}

// copyProxy copies bytes both ways and nothing else.
func copyProxy(l net.Listener, backend string) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			b, err := net.Dial("tcp", backend)
			if err != nil {
				return
			}
			defer b.Close()
			// Plain buffers: splice costs more on small messages.
			go func() { _, _ = io.Copy(struct{ io.Writer }{b}, struct{ io.Reader }{c}); _ = b.Close() }()
			_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{b})
		}()
	}
}

// process is a role that runs.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
}

func startRole(t *testing.T, role string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestRole$")
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v", role, err)
	}
	p := &process{cmd: cmd, stdin: in, addr: strings.TrimSpace(line)}
	t.Cleanup(func() { _ = p.stdin.Close(); _ = p.cmd.Wait() })
	return p
}

// startHAProxy runs HAProxy in TCP mode before the backend, nil without one.
func startHAProxy(t *testing.T, backend string) *process {
	t.Helper()
	bin, err := exec.LookPath("haproxy")
	if err != nil {
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	conf := filepath.Join(t.TempDir(), "haproxy.cfg")
	text := "global\n nbthread 2\n maxconn 4000\ndefaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n" +
		"frontend f\n bind " + addr + "\n default_backend b\nbackend b\n server s " + backend + "\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-f", conf, "-db")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 100 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return &process{cmd: cmd, addr: addr}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Log("haproxy did not start")
	return nil
}

// cpu returns the processor time that the process used.
func (p *process) cpu(t *testing.T) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Skip(err)
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// rss returns the resident memory of the process in bytes.
func (p *process) rss(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		t.Skip(err)
	}
	pages, _ := strconv.Atoi(strings.Fields(string(b))[1])
	return pages * os.Getpagesize()
}

// roundTrips sends pings on n connections for d and returns how many were
// answered.
func roundTrips(t *testing.T, addr string, n int, d time.Duration) int {
	t.Helper()
	doc := bsoncore.BuildDocument(nil, bsoncore.AppendStringElement(nil, "find", "orders"),
		bsoncore.AppendStringElement(nil, "$db", "shop"), bsoncore.AppendStringElement(nil, "comment", strings.Repeat("x", 30)))
	ping := binary.LittleEndian.AppendUint32(nil, uint32(21+len(doc)))
	ping = append(ping, 1, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0, 0, 0, 0, 0, 0)
	ping = append(ping, doc...)
	stop := time.Now().Add(d)
	var wg sync.WaitGroup
	counts := make([]int, n)
	for i := range n {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer c.Close()
			buf := make([]byte, 4096)
			for time.Now().Before(stop) {
				if _, err := c.Write(ping); err != nil {
					t.Error(err)
					return
				}
				if _, err := c.Read(buf); err != nil {
					t.Error(err)
					return
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	total := 0
	for _, c := range counts {
		total += c
	}
	return total
}

// The gate costs what a proxy costs that only copies.
func TestCost(t *testing.T) {
	if os.Getenv("ADMITD_BENCH") == "" {
		t.Skip("set ADMITD_BENCH=1 to measure")
	}
	backend := startRole(t, "backend")
	targets := map[string]*process{
		"copy": startRole(t, "copy "+backend.addr), "gate": startRole(t, "gate "+backend.addr),
		"refuse": startRole(t, "refuse "+backend.addr),
	}
	if h := startHAProxy(t, backend.addr); h != nil {
		targets["haproxy"] = h
	}
	for _, conns := range []int{8, 64} {
		rps, perOp := map[string][]float64{}, map[string][]float64{}
		for range 7 {
			for name, p := range targets {
				before := p.cpu(t)
				n := roundTrips(t, p.addr, conns, time.Second)
				rps[name] = append(rps[name], float64(n))
				perOp[name] = append(perOp[name], (p.cpu(t)-before).Seconds()*1e6/float64(n))
			}
		}
		for name := range targets {
			t.Logf("%2d connections, %-7s %8.0f /s (%.2f of copy), CPU %5.1f µs per round trip (%.2f of copy)", conns, name,
				median(rps[name]), median(rps[name])/median(rps["copy"]), median(perOp[name]), median(perOp[name])/median(perOp["copy"]))
		}
	}
}

func median(v []float64) float64 {
	sort.Float64s(v)
	return v[len(v)/2]
}

// 10,000 idle connections, each paired with one to the backend, stay small.
func TestIdleMemory(t *testing.T) {
	if os.Getenv("ADMITD_BENCH") == "" {
		t.Skip("set ADMITD_BENCH=1 to measure")
	}
	const want, bound = 9900, 160 << 20 // two descriptors each, below the usual bound of 20,000
	backend := startRole(t, "backend")
	gate := startRole(t, "gate "+backend.addr)
	before := gate.rss(t)
	hello := msg(1, 0, bson.D{{Key: "hello", Value: 1}, {Key: "$db", Value: "admin"}})
	for range want {
		c, err := net.Dial("tcp", gate.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		write(t, c, hello)
		readFrame(t, c)
	}
	grown := gate.rss(t) - before
	t.Logf("%d idle connections: %d MiB, %.1f KiB each", want, grown>>20, float64(grown)/want/1024)
	if grown*10_000/want > bound {
		t.Errorf("10,000 connections would take %d MiB, want at most %d", grown*10_000/want>>20, bound>>20)
	}
}

// A storm of connection attempts, most of which send nothing or garbage, leaves
// the gate small and answering.
func TestConnectionStorm(t *testing.T) {
	if os.Getenv("ADMITD_BENCH") == "" {
		t.Skip("set ADMITD_BENCH=1 to measure")
	}
	const attempts = 100_000
	backend := startRole(t, "backend")
	gate := startRole(t, "gate "+backend.addr)
	before, peak := gate.rss(t), 0
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range attempts / 8 {
				c, err := net.Dial("tcp", gate.addr)
				if err != nil {
					continue // the door is full
				}
				if i%2 == 0 {
					_, _ = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
				}
				_ = c.(*net.TCPConn).SetLinger(0) // leaves no TIME_WAIT behind
				_ = c.Close()
				if w == 0 && i%500 == 0 {
					peak = max(peak, gate.rss(t))
				}
			}
		})
	}
	wg.Wait()
	n := roundTrips(t, gate.addr, 1, 200*time.Millisecond)
	t.Logf("%d attempts: at most %d MiB more; %d round trips in 200 ms afterwards", attempts, (peak-before)>>20, n)
	if peak-before > 64<<20 || n == 0 {
		t.Errorf("%d MiB more, %d round trips; want at most 64, and some", (peak-before)>>20, n)
	}
}

// BenchmarkRefusal is the cost of a refusal without the system calls around it:
// identify, decide, and the bytes of the answer.
func BenchmarkRefusal(b *testing.B) {
	g := limiter.New("bench", &limiter.Policy{Rate: limiter.Rate{PerSecond: 1e-6}}, limiter.Options{})
	_, _ = g.TryAdmit(g.Now(), limiter.Request{})
	identify := mongogate.IdentifyAllocs(msg(1, 0, find()))
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		identify()
		_, err := g.TryAdmit(g.Now(), limiter.Request{})
		var rej *limiter.Rejection
		if !errors.As(err, &rej) {
			b.Fatal(err)
		}
		d := rej.Document(limiter.Request{}, true)
		buf = mongogate.RefusalAppend(buf, &d)
	}
}
