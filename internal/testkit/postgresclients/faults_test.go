package postgresclients_test

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// load keeps some workers asking until ctx is done, and returns how many answers
// were right; a wrong one fails the test.
func load(ctx context.Context, t *testing.T, port int) (wait func() int) {
	t.Helper()
	pool, err := pgxpool.New(ctx, url(port))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	right := 0
	for w := range 8 {
		wg.Go(func() {
			for n := w; ctx.Err() == nil; n += 8 {
				var got int
				if err := pool.QueryRow(ctx, "select $1::int + 0", n).Scan(&got); err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				mu.Lock()
				if right++; got != n {
					t.Errorf("the answer to %d is %d", n, got)
				}
				mu.Unlock()
			}
		})
	}
	return func() int { wg.Wait(); pool.Close(); mu.Lock(); defer mu.Unlock(); return right }
}

// A server that goes away, dies or stands still costs no permit.
func TestServerFaults(t *testing.T) {
	c := start(t)
	for name, hurt := range map[string]func(){
		"restart": func() { c.ctl("restart", "-w", "-m", "fast") },
		"crash":   func() { c.ctl("stop", "-m", "immediate"); c.up() },
		"stands still": func() {
			b, err := os.ReadFile(c.data + "/postmaster.pid")
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(b), "\n")
			pid, _ := strconv.Atoi(first)
			_ = syscall.Kill(-pid, syscall.SIGSTOP)
			time.Sleep(5 * time.Second)
			_ = syscall.Kill(-pid, syscall.SIGCONT)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := c.before(t, open)
			ctx, cancel := context.WithCancel(t.Context())
			wait := load(ctx, t, g.port)
			time.Sleep(300 * time.Millisecond)
			hurt()
			time.Sleep(500 * time.Millisecond)
			cancel()
			wait()
			if out := c.psql(t, g.port, "app", "select 7"); out != "7" {
				t.Errorf("afterwards psql read %q; want 7", out)
			}
			g.rests(t)
		})
	}
}

// Clients that break off in any state leave nothing behind.
func TestClientsThatBreakOff(t *testing.T) {
	c := start(t)
	for _, how := range []string{"finish", "cancel"} {
		for _, keep := range []string{"auto", "release", "keep"} {
			t.Run(how+" "+keep, func(t *testing.T) {
				g := c.before(t, open+`, "abandon": "`+how+`", "postgres": {"idleInTransaction": "`+keep+`"}`)
				for _, sql := range []string{"", "begin", "select pg_sleep(1.5)", "begin; select 1/0", "copy (select generate_series(1, 3000000)) to stdout"} {
					conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(g.port))
					if err != nil {
						t.Fatal(err)
					}
					body := "user\x00app\x00\x00"
					_, _ = conn.Write(append([]byte{0, 0, 0, byte(8 + len(body)), 0, 3, 0, 0}, body...))
					if sql != "" {
						_, _ = conn.Write(append([]byte{'Q', 0, 0, 0, byte(5 + len(sql))}, sql+"\x00"...))
					}
					time.Sleep(150 * time.Millisecond)
					_ = conn.Close()
				}
				g.rests(t)
				left := ""
				for range 60 {
					if left = c.psql(t, c.port, "postgres", "select count(*) from pg_stat_activity where usename = 'app'"); left == "0" {
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
				if left != "0" {
					t.Errorf("%s sessions are left at the server", left)
				}
			})
		}
	}
}

// A drain under load ends in time, and no open transaction is lost.
func TestDrainUnderLoad(t *testing.T) {
	c := start(t)
	g := c.before(t, open)
	ctx, cancel := context.WithCancel(t.Context())
	wait := load(ctx, t, g.port)
	client := clients()["pgx exec"](t, g.port)
	defer client.close()
	for _, sql := range []string{"create table kept (a int)", "begin", "insert into kept values (1)"} {
		if err := client.do(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- g.stop() }()
	time.Sleep(500 * time.Millisecond)
	for _, sql := range []string{"insert into kept values (2)", "commit"} {
		if err := client.do(t.Context(), sql); err != nil {
			t.Errorf("%s while draining: %v", sql, err)
		}
	}
	if err := <-stopped; err != nil {
		t.Errorf("drain: %v", err)
	}
	cancel()
	wait()
	if out := c.psql(t, c.port, "app", "select count(*) from kept"); out != "2" {
		t.Errorf("%s rows; want 2", out)
	}
}
