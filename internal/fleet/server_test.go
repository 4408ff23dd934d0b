package fleet_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a Redis of our own: a process on a free port, in a directory that
// goes with the test.
type server struct {
	tb   testing.TB
	dir  string
	addr string
	args []string
	cmd  *exec.Cmd
}

// startRedis runs Debian's Redis, and skips the test where there is none.
func startRedis(tb testing.TB, args ...string) *server {
	tb.Helper()
	s := &server{tb: tb, dir: tb.TempDir(), addr: "127.0.0.1:" + freePort(tb), args: args}
	tb.Cleanup(s.kill) // before it starts: a start may fail half-way
	s.start()
	return s
}

func (s *server) start() {
	s.tb.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		s.tb.Skip("redis-server is not installed")
	}
	_, port, _ := net.SplitHostPort(s.addr)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--repl-diskless-sync-delay", "0"}, s.args...)
	s.cmd = exec.Command(bin, args...)
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		s.tb.Fatal(err)
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	eventually(s.tb, "Redis listens", func() bool {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// kill ends it as kill -9 does.
func (s *server) kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// do runs a command as the default user.
func (s *server) do(words ...any) any {
	s.tb.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.addr, DisableIdentity: true})
	defer c.Close()
	got, err := c.Do(context.Background(), words...).Result()
	if err != nil {
		s.tb.Fatalf("%v: %v", words, err)
	}
	return got
}

func freePort(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// eventually waits for what must come, however slow the machine is.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("after a minute not yet: %s", what)
		}
	}
}

// proxy stands between a gate and Redis, and can do to it what networks do.
type proxy struct {
	ln net.Listener
	to string

	mu    sync.Mutex // guards the fields below
	hole  bool       // swallows everything
	conns []net.Conn
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, to: to}
	go p.serve()
	t.Cleanup(func() { _ = ln.Close(); p.reset() })
	return p
}

func (p *proxy) serve() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = c.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, c, s)
		p.mu.Unlock()
		go p.pipe(s, c)
		go p.pipe(c, s)
	}
}

// pipe copies, unless everything is swallowed.
func (p *proxy) pipe(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		hole := p.hole
		p.mu.Unlock()
		if hole {
			n = 0
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// swallow says whether nothing passes any more.
func (p *proxy) swallow(on bool) {
	p.mu.Lock()
	p.hole = on
	p.mu.Unlock()
}

// reset breaks every connection.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
	p.conns = nil
}

// contextOfStdin is done when whoever started this process goes.
func contextOfStdin() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}
