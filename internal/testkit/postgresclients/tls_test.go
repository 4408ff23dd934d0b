package postgresclients_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/admitd/admitd/internal/testkit/keypair"
)

// encrypt has the server speak TLS, and want a SCRAM password of the user
// secret. It returns the file of who vouches for it.
func (c *cluster) encrypt(t *testing.T) (caFile string) {
	t.Helper()
	cert, key := keypair.Files(t, "localhost", "127.0.0.1")
	for path, name := range map[string]string{cert: "server.crt", key: "server.key"} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c.place(t, name, string(b))
	}
	c.place(t, "pg_hba.conf", "host all secret 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n")
	c.psql(t, c.port, "postgres", "create user secret password 'quiet'")
	c.psql(t, c.port, "postgres", "alter system set ssl = on")
	c.ctl("restart", "-w", "-m", "fast")
	return cert
}

// place writes a file of the server's.
func (c *cluster) place(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(c.data, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		uid, gid := nobody(t)
		if err := os.Chown(path, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
}

// ask runs a query with psql over a connection string.
func (c *cluster) ask(conninfo, sql string) (string, error) {
	cmd := exec.Command(filepath.Join(c.bin, "psql"), "-X", "-A", "-t", "-c", sql, conninfo)
	cmd.Env = append(os.Environ(), "PGPASSWORD=quiet", "PGCONNECT_TIMEOUT=20")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// libpq and pgx over TLS that ends in the gate, begins there again, or passes.
// Only in the last does channel binding work.
func TestTLS(t *testing.T) {
	c := start(t)
	serverCA := c.encrypt(t)
	cert, key := keypair.Files(t, "localhost", "127.0.0.1")
	tlsOf := fmt.Sprintf(`, "tls": {"certFile": %q, "keyFile": %q}`, cert, key)
	again := fmt.Sprintf(`, "backendTLS": {"enabled": true, "caFile": %q, "serverName": "localhost"}`, serverCA)
	const works, fails = true, false
	for name, tc := range map[string]struct {
		settings, ca string
		behind       string // whether the server sees TLS
		cases        map[string]bool
	}{
		"ended": {tlsOf, cert, "f", map[string]bool{
			"sslmode=verify-full": works, "sslmode=disable": works, "sslmode=verify-full channel_binding=require": fails,
		}},
		"begun again": {tlsOf + again, cert, "t", map[string]bool{
			"sslmode=verify-full channel_binding=disable": works, "sslmode=disable": works,
			"sslmode=verify-full": fails, "sslmode=verify-full channel_binding=require": fails,
		}},
		"only behind": {again, cert, "t", map[string]bool{"sslmode=prefer": works, "sslmode=require": fails}},
		"passed":      {`, "postgres": {"passTLS": true}`, serverCA, "t", map[string]bool{"sslmode=verify-full": works, "sslmode=verify-full channel_binding=require": works}},
		"not there":   {"", serverCA, "f", map[string]bool{"sslmode=prefer": works, "sslmode=require": fails}},
	} {
		t.Run(name, func(t *testing.T) {
			g := c.before(t, open+tc.settings)
			for mode, want := range tc.cases {
				info := fmt.Sprintf("host=localhost hostaddr=127.0.0.1 port=%d dbname=app user=secret sslrootcert=%s %s", g.port, tc.ca, mode)
				out, err := c.ask(info, "select ssl from pg_stat_ssl where pid = pg_backend_pid()")
				if (err == nil) != want || want && out != tc.behind {
					t.Errorf("%s: %q, %v; want that it works: %v, with TLS behind: %s", mode, out, err, want, tc.behind)
				}
			}
		})
	}
	t.Run("direct", func(t *testing.T) {
		g := c.before(t, tight+tlsOf)
		client, err := pgx.Connect(t.Context(), fmt.Sprintf("host=localhost port=%d dbname=app user=app sslmode=verify-full sslrootcert=%s sslnegotiation=direct", g.port, cert))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(t.Context())
		refused := 0
		for n := range 60 {
			got, err := pgxConn{client}.one(t.Context(), n)
			if state(err) == "53400" {
				refused++
			} else if err != nil || got != n {
				t.Fatalf("query %d: %d, %v", n, got, err)
			}
		}
		if refused == 0 {
			t.Error("nothing was refused: the gate does not see what is in the TLS that it ended")
		}
	})
}

// A request to cancel finds the server that its session is on, with and without
// TLS.
func TestCancelOfSeveral(t *testing.T) {
	first, second := start(t), start(t)
	cert, key := keypair.Files(t, "localhost", "127.0.0.1")
	more := fmt.Sprintf(`, "tls": {"certFile": %q, "keyFile": %q}, "postgres": {"moreBackends": ["127.0.0.1:%d"]}`, cert, key, second.port)
	g := first.before(t, open+more)
	for _, mode := range []string{"disable", "require"} {
		for n := range 4 {
			client, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://app@127.0.0.1:%d/app?sslmode=%s", g.port, mode))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close(t.Context())
			ended := make(chan error, 1)
			go func() { _, err := client.Exec(t.Context(), "select pg_sleep(60)"); ended <- err }()
			time.Sleep(200 * time.Millisecond)
			if err := client.PgConn().CancelRequest(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if state(err) != "57014" {
					t.Errorf("session %d over %s: %v; want 57014", n, mode, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("session %d over %s runs on", n, mode)
			}
		}
	}
	for _, c := range []*cluster{first, second} {
		if got := c.psql(t, c.port, "postgres", "select count(*) from pg_stat_activity where usename = 'app'"); got == "0" {
			t.Error("one of the servers had no session: nothing was tried")
		}
	}
	g.rests(t)
}

// What a server says when it ends a session comes through, in its place, and
// pgx tells it apart from a refusal.
func TestSessionsThatAreEnded(t *testing.T) {
	c := start(t)
	g := c.before(t, open)
	for name, during := range map[string]string{"idle": "", "in a transaction": "begin", "at work": "select pg_sleep(30)"} {
		t.Run(name, func(t *testing.T) {
			client, err := pgx.Connect(t.Context(), url(g.port))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close(t.Context())
			ended := make(chan error, 1)
			if name == "at work" {
				go func() { _, err := client.Exec(t.Context(), during); ended <- err }()
				time.Sleep(200 * time.Millisecond)
			} else if during != "" {
				if _, err := client.Exec(t.Context(), during); err != nil {
					t.Fatal(err)
				}
			}
			c.psql(t, c.port, "postgres", "select pg_terminate_backend("+strconv.FormatUint(uint64(client.PgConn().PID()), 10)+", 5000)")
			if name != "at work" {
				_, err := client.Exec(t.Context(), "select 1")
				ended <- err
			}
			if err := <-ended; state(err) != "57P01" {
				t.Errorf("%v; want 57P01", err)
			}
			g.rests(t)
		})
	}
}

// A client that sends no rows in the middle of a COPY takes nobody's place.
func TestIdleCopy(t *testing.T) {
	c := start(t)
	g := c.before(t, `, "partitions": {"default": {"limit": {"algorithm": "fixed", "limit": 1}, "queue": {"depth": 10, "maxWait": "20s"}}}`)
	c.psql(t, g.port, "app", "create table rows (a int)")
	copying := exec.Command(filepath.Join(c.bin, "psql"), "-X", "-c", "copy rows from stdin", url(g.port))
	in, err := copying.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := copying.Start(); err != nil {
		t.Fatal(err)
	}
	for c.psql(t, c.port, "postgres", "select count(*) from pg_stat_progress_copy") == "0" {
		time.Sleep(50 * time.Millisecond)
	}
	for range 3 {
		if out := c.psql(t, g.port, "app", "select 7"); out != "7" {
			t.Errorf("beside an idle COPY psql read %q; want 7", out)
		}
		_, _ = in.Write([]byte(strings.Repeat("1\n", 50_000)))
	}
	_ = in.Close()
	if err := copying.Wait(); err != nil {
		t.Errorf("the copy: %v", err)
	}
	if out := c.psql(t, g.port, "app", "select count(*) from rows"); out != "150000" {
		t.Errorf("%s rows came; want 150000", out)
	}
	g.rests(t)
}
