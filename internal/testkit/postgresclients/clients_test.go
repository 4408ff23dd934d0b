package postgresclients_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
)

const (
	open  = `, "partitions": {"default": {"limit": {"algorithm": "fixed", "limit": 1000}}}`
	tight = `, "requests": {"rate": 15, "burstSeconds": 1}`
)

// conn is one connection of some client.
type conn interface {
	// one asks for a number with an argument.
	one(ctx context.Context, n int) (int, error)
	do(ctx context.Context, sql string) error
	close()
}

// pgxConn is pgx, in one of its modes.
type pgxConn struct{ *pgx.Conn }

func (c pgxConn) one(ctx context.Context, n int) (got int, err error) {
	err = c.QueryRow(ctx, "select $1::int + 0", n).Scan(&got)
	return got, err
}

func (c pgxConn) do(ctx context.Context, sql string) error { _, err := c.Exec(ctx, sql); return err }
func (c pgxConn) close()                                   { _ = c.Close(context.Background()) }

// sqlConn is database/sql.
type sqlConn struct {
	db *sql.DB
	*sql.Conn
}

func (c sqlConn) one(ctx context.Context, n int) (got int, err error) {
	err = c.QueryRowContext(ctx, "select $1::int + 0", n).Scan(&got)
	return got, err
}

func (c sqlConn) do(ctx context.Context, sql string) error {
	_, err := c.ExecContext(ctx, sql)
	return err
}
func (c sqlConn) close() { _, _ = c.Close(), c.db.Close() }

func url(port int) string {
	return fmt.Sprintf("postgres://app@127.0.0.1:%d/app?sslmode=disable", port)
}

// clients are the ways to connect.
func clients() map[string]func(t *testing.T, port int) conn {
	all := map[string]func(t *testing.T, port int) conn{}
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		all["pgx "+mode.String()] = func(t *testing.T, port int) conn {
			t.Helper()
			conf, err := pgx.ParseConfig(url(port))
			if err != nil {
				t.Fatal(err)
			}
			conf.DefaultQueryExecMode = mode
			c, err := pgx.ConnectConfig(t.Context(), conf)
			if err != nil {
				t.Fatal(err)
			}
			return pgxConn{c}
		}
	}
	for _, driver := range []string{"pgx", "postgres"} {
		all["database/sql "+driver] = func(t *testing.T, port int) conn {
			t.Helper()
			db, err := sql.Open(driver, url(port))
			if err != nil {
				t.Fatal(err)
			}
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return sqlConn{db, c}
		}
	}
	return all
}

// state returns the SQLSTATE of an error of either driver.
func state(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[*pq.Error](err); ok {
		return string(e.Code)
	}
	return ""
}

// play does what clients do, and writes down what came of it.
func play(t *testing.T, c conn) string {
	t.Helper()
	var log strings.Builder
	note := func(what string, err error) { fmt.Fprintf(&log, "%s: %s\n", what, state(err)) }
	ctx := t.Context()
	for n := range 5 {
		got, err := c.one(ctx, n)
		note(strconv.Itoa(got), err)
	}
	for _, sql := range []string{
		"create temp table x (a int primary key)", "begin", "insert into x values (1)", "insert into x values (1)", "select 1", "rollback",
		"begin", "insert into x select generate_series(1, 1000)", "commit", "select count(*) from x", "select 1/0", "set statement_timeout to '200ms'",
		"select pg_sleep(1)", "reset all", "listen a", "notify a", "", "begin; select 1; commit", "declare y cursor with hold for select 1",
	} {
		note(sql, c.do(ctx, sql))
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := c.do(short, "select pg_sleep(20)"); err == nil {
		t.Error("a query ran on beyond its context")
	}
	return log.String()
}

// With limits that never bind everything is as it is without the gate.
func TestSameResults(t *testing.T) {
	c := start(t)
	g := c.before(t, open)
	for name, connect := range clients() {
		t.Run(name, func(t *testing.T) {
			var said [2]string
			for i, port := range []int{c.port, g.port} {
				client := connect(t, port)
				said[i] = play(t, client)
				client.close()
			}
			if said[0] != said[1] {
				t.Errorf("directly:\n%s\nthrough the gate:\n%s", said[0], said[1])
			}
		})
	}
	for _, sql := range []string{`\d`, "select 1; select 2", "copy (select generate_series(1, 3)) to stdout", "select 1/0", "create table z (a int); copy z from program 'true'"} {
		direct, _ := c.try(c.port, "app", sql)
		_, _ = c.try(c.port, "app", "drop table if exists z")
		through, _ := c.try(g.port, "app", sql)
		_, _ = c.try(c.port, "app", "drop table if exists z")
		if direct != through {
			t.Errorf("psql %q: %q directly, %q through the gate", sql, direct, through)
		}
	}
	// A query that was cancelled is over at the server too.
	if n := c.psql(t, c.port, "postgres", "select count(*) from pg_stat_activity where query like '%pg_sleep(20)%' and state = 'active' and pid <> pg_backend_pid()"); n != "0" {
		t.Errorf("%s cancelled queries still run", n)
	}
	g.rests(t)
}

// What is refused is refused with a typed error, and costs nobody the connection
// or somebody else's answer.
func TestPartRefused(t *testing.T) {
	c := start(t)
	for name, connect := range clients() {
		t.Run(name, func(t *testing.T) {
			g := c.before(t, tight)
			client := connect(t, g.port)
			defer client.close()
			served, refused := 0, 0
			for n := range 90 {
				got, err := client.one(t.Context(), n)
				switch {
				case err == nil && got == n:
					served++
				case state(err) == "53400":
					refused++
				default:
					t.Fatalf("query %d: %d, %v", n, got, err)
				}
				time.Sleep(15 * time.Millisecond)
			}
			if served < 15 || refused < 5 {
				t.Errorf("%d served, %d refused; want some of both", served, refused)
			}
			g.rests(t)
		})
	}
}

// pgbench, in its three modes.
func TestPgbench(t *testing.T) {
	c := start(t)
	g := c.before(t, open)
	bench := func(port int, args ...string) (string, error) {
		args = append(args, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "app", "app")
		out, err := exec.Command(filepath.Join(c.bin, "pgbench"), args...).CombinedOutput()
		return string(out), err
	}
	if out, err := bench(g.port, "-i", "-s", "1"); err != nil {
		t.Fatalf("pgbench -i: %v: %s", err, out)
	}
	for _, mode := range []string{"simple", "extended", "prepared"} {
		out, err := bench(g.port, "-M", mode, "-c", "8", "-j", "2", "-t", "50")
		if err != nil || !strings.Contains(out, "400/400") || !strings.Contains(out, "failed transactions: 0") {
			t.Errorf("pgbench -M %s: %v: %s", mode, err, out)
		}
	}
	g.rests(t)
}

// Who must get in gets in when the door is full, and others are told.
func TestReserved(t *testing.T) {
	c := start(t)
	g := c.before(t, `, "connections": {"maxOpen": 3, "reserved": 1}`)
	for range 2 {
		client := clients()["pgx exec"](t, g.port)
		defer client.close()
	}
	for range 2 { // the second time its user is known
		if out, err := c.try(g.port, "app", "select 1"); err == nil || !strings.Contains(out, "too many connections") {
			t.Errorf("the third ordinary connection: %v: %s; want too many connections", err, out)
		}
	}
	if out := c.psql(t, g.port, "postgres", "select 7"); out != "7" {
		t.Errorf("a superuser read %q; want 7", out)
	}
}

// libpq goes to the next host of its list when a gate is not there.
func TestMultiHost(t *testing.T) {
	c := start(t)
	g := c.before(t, open)
	out, err := exec.Command(filepath.Join(c.bin, "psql"), "-X", "-A", "-t", "-c", "select 7",
		fmt.Sprintf("host=127.0.0.1,127.0.0.1 port=%d,%d user=app dbname=app", freePort(t), g.port)).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "7" {
		t.Errorf("psql: %v: %s; want 7", err, out)
	}
}
