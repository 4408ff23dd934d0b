//go:build unix

package demo

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
	"syscall"
	"time"
)

// cluster is a throw-away PostgreSQL server, of the programs that are on this
// machine.
type cluster struct {
	bin, dir string
	port     int
	as       *syscall.SysProcAttr // somebody who is not root
}

// findCluster returns a server that has not been started; nil where there is
// none, or nobody to run it.
func findCluster() *cluster {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 { // Debian's is not in the path
		path, err := exec.LookPath("initdb")
		if err != nil {
			return nil
		}
		found = append(found, path)
	}
	c := &cluster{bin: filepath.Dir(slices.Max(found))}
	if os.Getuid() != 0 {
		return c
	}
	u, err := user.Lookup("postgres") // a server does not run as root
	if err != nil {
		return nil
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	c.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return c
}

// start runs the server until ctx is done, and then removes it. ended is closed
// when that is over.
func (c *cluster) start(ctx context.Context) (address string, ended <-chan struct{}, err error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("demo backend: %w", err)
	}
	c.port = ln.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	_ = ln.Close()
	if c.dir, err = os.MkdirTemp("/tmp", "admitd-demo-"); err != nil { // short: a socket's path has a bound
		return "", nil, fmt.Errorf("demo backend: %w", err)
	}
	if c.as != nil {
		err = os.Chown(c.dir, int(c.as.Credential.Uid), int(c.as.Credential.Gid))
	}
	data := filepath.Join(c.dir, "data")
	if err == nil {
		err = c.run(ctx, "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "--no-locale")
	}
	over := make(chan struct{})
	if err != nil {
		_ = os.RemoveAll(c.dir)
		return "", nil, err
	}
	server := c.command(ctx, "postgres", "-D", data, "-p", strconv.Itoa(c.port), "-k", c.dir, "-h", "127.0.0.1", "-c", "fsync=off",
		"-c", "max_connections="+strconv.Itoa(demoConnections+50))
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGQUIT) } // at once
	server.WaitDelay = 5 * time.Second
	if err = server.Start(); err != nil {
		_ = os.RemoveAll(c.dir)
		return "", nil, fmt.Errorf("demo backend: %w", err)
	}
	go func() {
		defer close(over)
		_ = server.Wait()
		_ = os.RemoveAll(c.dir)
	}()
	for try := 0; ; try++ {
		if err = c.sql(ctx, "create user demo", "create database demo owner demo"); err == nil || try == 100 || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return "127.0.0.1:" + strconv.Itoa(c.port), over, err
}

// sql has a superuser run statements.
func (c *cluster) sql(ctx context.Context, statements ...string) error {
	args := []string{"-X", "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(c.port), "-U", "postgres", "-d", "postgres", "-v", "ON_ERROR_STOP=1"}
	for _, s := range statements {
		args = append(args, "-c", s)
	}
	return c.run(ctx, "psql", args...)
}

func (c *cluster) run(ctx context.Context, name string, args ...string) error {
	if out, err := c.command(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("demo backend: %s: %w: %.500s", name, err, out)
	}
	return nil
}

func (c *cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...) //nolint:gosec // programs of the server, whose arguments are ours
	cmd.Dir, cmd.SysProcAttr = "/", c.as
	return cmd
}
