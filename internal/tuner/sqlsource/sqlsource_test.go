package sqlsource_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/admitd/admitd/internal/tuner/sqlsource"
)

// binary finds a program of PostgreSQL, or skips the test.
func binary(t *testing.T, name string) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if path, err := exec.LookPath(name); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		t.Skipf("no %s here: install the package postgresql", name)
	}
	return found[0]
}

// server starts a PostgreSQL of its own, and returns its URL and its process.
func server(t *testing.T) (url string, process *exec.Cmd) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sqlsource") //nolint:usetesting // a short path that postgres may enter: its socket lies there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := unprivileged(t, dir)
	initdb := exec.CommandContext(t.Context(), binary(t, "initdb"), "-D", dir+"/data", "-U", "admin", "-A", "trust", "-N")
	initdb.SysProcAttr, initdb.Dir = attr, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	process = exec.CommandContext(t.Context(), binary(t, "postgres"), "-D", dir+"/data", "-p", strconv.Itoa(port), "-k", dir, "-h", "127.0.0.1", "-F")
	process.SysProcAttr, process.Dir = attr, dir
	process.Cancel = func() error { return process.Process.Signal(syscall.SIGINT) }
	if err := process.Start(); err != nil {
		t.Fatalf("postgres: %v", err)
	}
	t.Cleanup(func() { _ = process.Process.Signal(syscall.SIGINT); _ = process.Wait() })
	return fmt.Sprintf("postgres://admin@127.0.0.1:%d/postgres?sslmode=disable", port), process
}

// unprivileged makes a command run as postgres where the test is root, which
// the server refuses to be.
func unprivileged(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Skip("PostgreSQL does not run as root, and there is no user postgres")
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// read asks once, again and again until the server is up.
func read(t *testing.T, s *sqlsource.Source) (float64, error) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		v, _, err := s.Read(ctx)
		cancel()
		if err == nil || errors.Is(err, sqlsource.ErrNotOne) || time.Now().After(deadline) {
			return v, err
		}
	}
}

// whoWaits has one session wait for another, and asks over a login that may see
// that and over one that may not.
func whoWaits(t *testing.T, url string) {
	t.Helper()
	connect := func() *pgx.Conn {
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
		return c
	}
	holder, waiter := connect(), connect()
	for _, statement := range []string{"create role blind login", "create role seer login in role pg_monitor", "select pg_advisory_lock(1)"} {
		if _, err := holder.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	address := net.JoinHostPort(holder.Config().Host, strconv.Itoa(int(holder.Config().Port)))
	seer := sqlsource.NewActivity(address, sqlsource.Login{User: "seer", Database: "postgres"})
	if pids, err := seer.LockWaiters(t.Context()); len(pids) > 0 || err != nil {
		t.Errorf("LockWaiters() = %v, %v; want nobody", pids, err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(t.Context(), "select pg_advisory_lock(1)")
		waited <- err
	}()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		pids, err := seer.LockWaiters(t.Context())
		if err == nil && len(pids) == 0 && time.Now().Before(deadline) {
			continue
		}
		if err != nil || len(pids) != 1 || pids[0] != waiter.PgConn().PID() {
			t.Errorf("LockWaiters() = %v, %v; want %d", pids, err, waiter.PgConn().PID())
		}
		break
	}
	if _, err := holder.Exec(t.Context(), "select pg_advisory_unlock(1)"); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if err := seer.Close(); err != nil {
		t.Error(err)
	}
	if pids, err := seer.LockWaiters(t.Context()); len(pids) > 0 || err != nil { // opens another connection
		t.Errorf("LockWaiters() = %v, %v; want nobody", pids, err)
	}
	_ = seer.Close()
	if _, err := sqlsource.NewActivity(address, sqlsource.Login{User: "blind", Database: "postgres"}).LockWaiters(t.Context()); !errors.Is(err, sqlsource.ErrSeesNobody) {
		t.Errorf("LockWaiters() of a login that sees nobody: %v", err)
	}
}

func TestPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a PostgreSQL")
	}
	url, process := server(t)
	for query, want := range map[string]float64{
		"select 42":                              42,
		"select 1.5::numeric":                    1.5,
		"select 2.5::float8":                     2.5,
		"select true":                            1,
		"select interval '1 minute 1.5 seconds'": 61.5,
		"select interval '-1 year 2 months 3 days -04:05:06.5'": -300*86400 + 3*86400 - 14706.5,
		"select interval '2 days'":                              172800,
		"select length(current_setting('application_name')) from (values (1)) v where current_setting('application_name') = 'admitd-tuner'": 12,
		"select now()":       -1,
		"select 'a b'::text": -1,
		"select '7'::text":   7,
		"select count(*) from pg_locks where not granted": 0,
		"select null::int":             -1,
		"select 1, 2":                  -1,
		"select 1 where false":         -1,
		"select generate_series(1, 2)": -1,
	} {
		s, err := sqlsource.New(url, query)
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		v, err := read(t, s)
		if want == -1 && !errors.Is(err, sqlsource.ErrNotOne) || want != -1 && (err != nil || v != want) {
			t.Errorf("%s: %v, %v; want %v", query, v, err, want)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	t.Run("it keeps the name of its URL", func(t *testing.T) {
		s, err := sqlsource.New(url+"&application_name=mine", "select 1 where current_setting('application_name') = 'mine'")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, _, err := s.Read(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("it cannot write", func(t *testing.T) {
		s, err := sqlsource.New(url, "create table x (i int)")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, _, err := s.Read(t.Context()); err == nil {
			t.Error("a query that writes succeeded")
		}
	})
	t.Run("it keeps its time", func(t *testing.T) {
		s, err := sqlsource.New(url, "select 1 from pg_sleep(case when current_setting('work_mem') = '4MB' then 30 else 0 end)")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, _, err := s.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Read of a slow query = %v; want DeadlineExceeded", err)
		}
	})
	t.Run("who waits for a lock", func(t *testing.T) { whoWaits(t, url) })
	t.Run("a server that is gone is an error", func(t *testing.T) {
		s, err := sqlsource.New(url, "select 1")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := read(t, s); err != nil {
			t.Fatalf("Read: %v", err)
		}
		if err := process.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = process.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := s.Read(ctx); err == nil {
			t.Error("Read of a server that is gone: no error")
		}
	})
}

func TestNewRefuses(t *testing.T) {
	if _, err := sqlsource.New("postgres://h:port/", "select 1"); err == nil {
		t.Error("New with a bad URL: no error")
	}
}
