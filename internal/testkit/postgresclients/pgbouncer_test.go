package postgresclients_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pooled runs a pgbouncer in front of a port, and returns its own.
func (c *cluster) pooled(t *testing.T, mode string, behind int) int {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		if path = "/usr/sbin/pgbouncer"; !exists(path) {
			t.Skip("pgbouncer is not on this machine; Debian has it in a package of that name")
		}
	}
	port := freePort(t)
	conf := filepath.Join(filepath.Dir(c.data), fmt.Sprintf("bouncer-%d.ini", port))
	text := fmt.Sprintf("[databases]\napp = host=127.0.0.1 port=%d user=app\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%d\nauth_type=any\npool_mode=%s\nunix_socket_dir=\ndefault_pool_size=1\n", behind, port, mode)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-q", conf)
	if os.Getuid() == 0 {
		uid, gid := nobody(t)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 100 {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			_ = conn.Close()
			return port
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("pgbouncer does not listen")
	return 0
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// pgbouncer works on both sides of the gate: what a client sees is what it sees
// of pgbouncer alone, and a refusal costs nobody a connection.
func TestPgbouncer(t *testing.T) {
	c := start(t)
	ways := clients()
	for _, mode := range []string{"session", "transaction"} {
		alone := c.pooled(t, mode, c.port)
		g := c.before(t, open)
		behind := *c
		behind.port = alone
		for order, port := range map[string]int{
			"client, pgbouncer, gate": c.pooled(t, mode, g.port), "client, gate, pgbouncer": behind.before(t, open).port,
		} {
			for name, connect := range ways {
				t.Run(mode+"/"+order+"/"+name, func(t *testing.T) {
					play := func(port int) string {
						forget(t, c, port)
						client := connect(t, port)
						defer client.close()
						return pooledPlay(t, client)
					}
					if want, got := play(alone), play(port); want != got {
						t.Errorf("pgbouncer alone:\n%s\nwith the gate:\n%s", want, got)
					}
				})
			}
		}
		t.Run(mode+"/refused", func(t *testing.T) {
			limited := c.before(t, tight)
			behindLimited := behind.before(t, tight)
			for order, port := range map[string]int{"client, pgbouncer, gate": c.pooled(t, mode, limited.port), "client, gate, pgbouncer": behindLimited.port} {
				client := ways["pgx exec"](t, port)
				served, refused := 0, 0
				for n := range 60 {
					switch got, err := client.one(t.Context(), n); {
					case err == nil && got == n:
						served++
					case state(err) == "53400":
						refused++
					default:
						t.Fatalf("%s: query %d: %d, %v", order, n, got, err)
					}
				}
				client.close()
				if served < 5 || refused < 5 {
					t.Errorf("%s: %d served, %d refused; want some of both", order, served, refused)
				}
			}
		})
	}
}

// forget has the one server connection of the pgbouncer at port, or behind it, forget
// what clients before have prepared there: a pool of transactions leaves it to the
// next client, whose statements have the same names.
func forget(t *testing.T, c *cluster, port int) {
	t.Helper()
	if out, err := c.try(port, "app", "deallocate all"); err != nil {
		t.Fatalf("no connection: %v: %s", err, out)
	}
}

// pooledPlay does what works in every mode of a pool, and writes down what came
// of it.
func pooledPlay(t *testing.T, c conn) string {
	t.Helper()
	var log strings.Builder
	for n := range 5 {
		got, err := c.one(t.Context(), n)
		fmt.Fprintf(&log, "%d: %s\n", got, state(err))
	}
	for _, sql := range []string{"begin", "select 1", "select 1/0", "select 1", "rollback", "begin; select 1; commit", "select count(*) from pg_class"} {
		fmt.Fprintf(&log, "%s: %s\n", sql, state(c.do(t.Context(), sql)))
	}
	return log.String()
}
