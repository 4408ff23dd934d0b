package fleet_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/fleet"
	"github.com/admitd/admitd/internal/testkit/keypair"
)

// rights reads from the document what a user needs.
func rights(t *testing.T) []any {
	t.Helper()
	b, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`ACL SETUSER admitd .*`).FindString(string(b))
	var words []any
	for word := range strings.FieldsSeq(strings.Replace(line, ">PASSWORD", ">first", 1)) {
		words = append(words, word)
	}
	if len(words) < 10 {
		t.Fatalf("docs/fleet.md has no ACL of the user: %q", line)
	}
	return words
}

// The rights in the document are enough, each is needed, and a password is
// rotated without a restart.
func TestRightsAndRotation(t *testing.T) {
	r := startRedis(t)
	r.do(rights(t)...)
	secret := filepath.Join(t.TempDir(), "password")
	write := func(s string) {
		if err := os.WriteFile(secret, []byte(s+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	m := join(t, fleet.Redis{Addresses: []string{r.addr}, Username: "admitd", PasswordFile: secret}, quick())
	eventually(t, "the rights are enough", func() bool {
		return m.in(fleet.Leased)() && len(m.Status().Quotas) == 1 && m.Status().Quotas[0].Epoch != ""
	})
	for needed, without := range map[string]fleet.Mode{
		"evalsha": fleet.FairMode, "time": fleet.FairMode, "hset": fleet.FairMode, "hmget": fleet.FairMode, "zadd": fleet.FairMode, "zcard": fleet.FairMode,
		"zremrangebyscore": fleet.FairMode, "pexpire": fleet.FairMode, "zrangebyscore": fleet.Partly, "hget": fleet.Partly, "hdel": fleet.Partly, "zrem": fleet.Partly,
	} {
		r.do("ACL", "SETUSER", "admitd", "-"+needed)
		eventually(t, "without "+needed+" the group does not answer", func() bool {
			r.do("ZADD", "admitd:{orders}:e:orders", 1, "old") // a gate that is forgotten
			return m.in(without)()
		})
		r.do("ACL", "SETUSER", "admitd", "+"+needed)
		eventually(t, "with it it does", m.in(fleet.Leased))
	}
	r.do("ACL", "SETUSER", "admitd", "-eval")
	r.do("SCRIPT", "FLUSH")
	eventually(t, "without eval a forgotten script stays so", m.in(fleet.FairMode))
	r.do("ACL", "SETUSER", "admitd", "+eval")
	eventually(t, "with it it does not", m.in(fleet.Leased))

	r.do("ACL", "SETUSER", "admitd", "resetpass", ">second")
	r.do("CLIENT", "KILL", "USER", "admitd")
	eventually(t, "the old password is refused", m.in(fleet.FairMode))
	write("second")
	eventually(t, "the new one is read", m.in(fleet.Leased))
}

// Redis is reached over TLS, and only with the right authority.
func TestTLS(t *testing.T) {
	cert, key := keypair.Files(t, "127.0.0.1")
	secure := freePort(t)
	startRedis(t, "--tls-port", secure, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no", "--tls-ca-cert-file", cert)
	b, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(b)
	addr := []string{"127.0.0.1:" + secure}
	m := join(t, fleet.Redis{Addresses: addr, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}, quick())
	eventually(t, "it is leased over TLS", func() bool { return m.in(fleet.Leased)() && m.Status().Calls > 0 })
	stranger := join(t, fleet.Redis{Addresses: addr, TLS: &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}}, quick())
	eventually(t, "another authority is refused", func() bool { _, why := stranger.Mode(); return strings.Contains(why, "x509") })
}

// All keys of a group lie in one slot, so that a cluster serves it from any node
// that is asked.
func TestCluster(t *testing.T) {
	r := startRedis(t, "--cluster-enabled", "yes")
	r.do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	m := join(t, fleet.Redis{Addresses: []string{r.addr}, Cluster: true}, quick())
	eventually(t, "it is leased by a cluster", func() bool {
		return m.in(fleet.Leased)() && len(m.Status().Quotas) == 1 && m.Status().Quotas[0].Epoch != ""
	})
}

// When the server dies its replica is promoted, and the gates follow the
// sentinels there. What the replica had not heard of is settled by the counts.
func TestSentinelFailover(t *testing.T) {
	bin, err := exec.LookPath("redis-sentinel")
	if err != nil {
		t.Skip("redis-sentinel is not installed")
	}
	master := startRedis(t)
	replica := startRedis(t, "--replicaof", "127.0.0.1", portOf(master.addr))
	port := freePort(t)
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := "port " + port + "\nbind 127.0.0.1\ndir " + t.TempDir() + "\nsentinel monitor orders 127.0.0.1 " + portOf(master.addr) + " 1\n" +
		"sentinel down-after-milliseconds orders 500\nsentinel failover-timeout orders 3000\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, conf)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	begun := time.Now()
	m := join(t, fleet.Redis{Addresses: []string{"127.0.0.1:" + port}, Master: "orders"}, quick())
	eventually(t, "it is leased by the master", func() bool {
		return m.in(fleet.Leased)() && len(m.Status().Quotas) == 1 && m.Status().Quotas[0].Epoch != ""
	})
	s := &server{tb: t, addr: "127.0.0.1:" + port}
	eventually(t, "the sentinel knows the replica", func() bool {
		info, ok := s.do("INFO", "sentinel").(string)
		return ok && strings.Contains(info, "slaves=1")
	})
	eventually(t, "the replica has the state", func() bool {
		info, ok := replica.do("INFO", "replication").(string)
		return ok && strings.Contains(info, "master_link_status:up")
	})
	master.kill()
	eventually(t, "the replica is promoted", func() bool {
		info, ok := replica.do("INFO", "replication").(string)
		return ok && strings.Contains(info, "role:master")
	})
	eventually(t, "it is leased by the replica", m.in(fleet.Leased))
	m.stop()
	most := 1000*time.Since(begun).Seconds() + 1000 + 300 + 200 + 2*400
	if spent := float64(m.admitted.Load()); spent > most {
		t.Errorf("%.0f tokens were spent over a failover; want at most %.0f", spent, most)
	}
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}
