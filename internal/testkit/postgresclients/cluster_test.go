package postgresclients_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/limiter"
)

// cluster is a throw-away server.
type cluster struct {
	t         *testing.T
	bin, data string
	port      int
	tuner     string // the section of gates before it, behind a comma; "" = none
}

// tool returns the path of a program of PostgreSQL.
func tool(t *testing.T, name string) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) > 0 {
		return slices.Max(found)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not on this machine; Debian has it in the package postgresql", name)
	}
	return path
}

// start runs a cluster until the test ends. It skips the test where there is no
// server.
func start(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a server")
	}
	dir, err := os.MkdirTemp("/tmp", "admitd-pg-") //nolint:usetesting // short: its socket's path has a bound
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, bin: filepath.Dir(tool(t, "initdb")), data: filepath.Join(dir, "d"), port: freePort(t)}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Getuid() == 0 {
		uid, gid := nobody(t)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	c.run("initdb", "-D", c.data, "-U", "postgres", "-A", "trust", "-N", "--no-locale", "-E", "UTF8")
	c.up()
	t.Cleanup(func() { c.ctl("stop", "-m", "immediate") })
	for _, sql := range []string{"create user app", "create database app owner app"} {
		c.psql(t, c.port, "postgres", sql)
	}
	return c
}

// up starts the server.
func (c *cluster) up() {
	c.t.Helper()
	c.ctl("start", "-w", "-l", c.data+".log", "-o",
		fmt.Sprintf("-p %d -k %s -h 127.0.0.1 -c fsync=off -c max_connections=300", c.port, filepath.Dir(c.data)))
}

func (c *cluster) ctl(args ...string) { c.t.Helper(); c.run("pg_ctl", append(args, "-D", c.data)...) }

// run runs a program of the server's, as somebody who is not root.
func (c *cluster) run(name string, args ...string) {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = filepath.Dir(c.data)
	if os.Getuid() == 0 {
		uid, gid := nobody(c.t)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	out, err := os.CreateTemp(c.t.TempDir(), "out") // a file: the server inherits it and keeps it open
	if err != nil {
		c.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		c.t.Fatalf("%s: %v: %s", name, err, said)
	}
}

// psql runs SQL and returns what it printed.
func (c *cluster) psql(t *testing.T, port int, who, sql string) string {
	t.Helper()
	out, err := c.try(port, who, sql)
	if err != nil {
		t.Fatalf("psql %q: %v: %s", sql, err, out)
	}
	return out
}

func (c *cluster) try(port int, who, sql string) (string, error) {
	database := "app"
	if who == "postgres" {
		database = "postgres"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "psql"), "-X", "-A", "-t", "-v", "VERBOSITY=verbose", "-h", "127.0.0.1",
		"-p", strconv.Itoa(port), "-U", who, "-d", database, "-c", sql)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func nobody(t *testing.T) (uid, gid int) {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ = strconv.Atoi(u.Uid)
			gid, _ = strconv.Atoi(u.Gid)
			return uid, gid
		}
	}
	t.Skip("neither user postgres nor nobody exists, and a PostgreSQL server does not run as root")
	return 0, 0
}

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// gate is a daemon with one PostgreSQL ingress.
type gate struct {
	*limiter.Gate
	port  int
	admin string // host:port
	stop  func() error
}

// before runs a gate in front of the cluster, with further settings.
func (c *cluster) before(t *testing.T, settings string) *gate {
	t.Helper()
	text := fmt.Sprintf(`{"log": {"level": "error", "format": "text"}, "admin": {"listen": "127.0.0.1:0"}, "ingresses": [{"name": "pg",
		"protocol": "postgres", "listen": "127.0.0.1:0", "backend": "127.0.0.1:%d", "drainTimeout": "10s"%s}]%s}`, c.port, settings, c.tuner)
	cfg, err := config.Parse("test", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(cfg, daemon.Options{Version: "test", Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	select {
	case err := <-ended:
		t.Fatal(err)
	case <-d.Up():
	}
	stopped := false
	g := &gate{Gate: d.Gate("pg"), port: d.Address("pg").(*net.TCPAddr).Port, admin: d.AdminAddress().String()}
	g.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = g.stop() })
	return g
}

// rests waits until no permit is out.
func (g *gate) rests(t *testing.T) {
	t.Helper()
	var held int
	for range 100 {
		if held = g.Status().InFlight; held == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%d permits are held after all work ended", held)
}
