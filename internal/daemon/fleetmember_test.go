package daemon_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/testkit/configured"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// sharing is a configuration whose rate and limit are shared through a Redis.
func sharing(redis, more string) string {
	return fmt.Sprintf(`
admin: { listen: 127.0.0.1:0 }
fleet: { redis: { addresses: [%q] }, gates: 2, interval: 50ms, lease: 300ms%s }
ingresses:
  - name: orders
    requests: { rate: 100, burstSeconds: 2, shared: true }
    partitions: { default: { limit: { algorithm: vegas, shared: true } } }
`, redis, more)
}

// fleet reads how a daemon stands in its group, nil when it is in none.
func (r *running) fleet() *status.Fleet {
	r.t.Helper()
	code, body := r.ask("GET", "/v1/fleet", "")
	if code == 404 {
		return nil
	}
	var f status.Fleet
	if err := json.Unmarshal([]byte(body), &f); err != nil {
		r.t.Fatalf("GET /v1/fleet: %d %s", code, body)
	}
	return &f
}

// soon waits for what must come, however slow the machine is.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute not yet: %s", what)
		}
	}
}

// flood asks for permits until one is refused, and returns the refusal.
func flood(t *testing.T, r *running) (n int, refused *limiter.Rejection) {
	t.Helper()
	gate := r.Gate("orders")
	for ; n < 100_000; n++ {
		p, err := gate.TryAdmit(gate.Now(), limiter.Request{})
		if err != nil {
			refused, _ = err.(*limiter.Rejection) //nolint:errorlint // TryAdmit returns nothing else
			return n, refused
		}
		p.End(limiter.Success)
	}
	t.Fatal("nothing is refused")
	return 0, nil
}

// Two daemons share a rate and a limit; without Redis they start, serve, say so,
// and go by the fallback, which a reload changes.
func TestDaemonsShare(t *testing.T) {
	redis := miniredis.RunT(t)
	at := redis.Addr()
	a, b := run(t, sharing(at, "")), run(t, sharing(at, ""))
	leased := func() bool {
		fa, fb := a.fleet(), b.fleet()
		return fa.Mode == "leased" && fb.Mode == "leased" && fa.Gates == 2 && len(fa.Quotas) == 1 && fa.Quotas[0].Epoch != "" && len(fa.Members) == 2
	}
	soon(t, "both are leased", leased)
	if q := a.fleet().Quotas[0]; q.Name != "orders" || q.PerSecond != 100 || q.Share <= 0 || q.Share > 100 {
		t.Errorf("the quota is %+v; want a part of 100/s of orders", q)
	}
	if _, refused := flood(t, a); refused.Limit != "fleet" {
		t.Errorf("the rate of the fleet refuses as %q", refused.Limit)
	}
	soon(t, "the limit is shared", func() bool {
		p := a.Gate("orders").Status().Partitions[0]
		return p.State["fleet_limit"] > 0 && p.State["fleet_gates"] == 2
	})
	if code, body := a.ask("GET", "/metrics", ""); code != 200 || !strings.Contains(body, `admitd_fleet_mode{mode="leased"}`) {
		t.Errorf("GET /metrics: %d without the mode", code)
	}

	redis.Close()
	soon(t, "one goes by its fallback", func() bool { return a.fleet().Mode == "fair" })
	if code, body := a.ask("GET", "/readyz", ""); code != 200 || !strings.Contains(body, "fallback fair") {
		t.Errorf("GET /readyz without Redis: %d %s; want 200 and the reason", code, body)
	}
	a.reload(sharing(at, ", fallback: closed"))
	soon(t, "a reload changes the fallback", func() bool {
		n, refused := flood(t, a)
		return n == 0 && refused.Limit == "fleet" && a.fleet().Mode == "closed"
	})
	a.reload(strings.Replace(sharing(at, ""), "shared: true", "shared: false", 2))
	soon(t, "what is not shared any more needs no group", func() bool { n, _ := flood(t, a); return n > 0 })
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the other is leased again", func() bool { return b.fleet().Mode == "leased" })
	a.reload(sharing(at, ""))
	soon(t, "and so is the first", leased)
	a.reload("admin: { listen: 127.0.0.1:0 }\ningresses: [{ name: orders, requests: { rate: 100 } }]\n")
	if f := a.fleet(); f != nil {
		t.Errorf("without a fleet in the configuration: %+v", f)
	}
	soon(t, "who leaves is counted no more", func() bool { return b.fleet().Gates == 1 })
}

// A faulty file of the group is told before anything runs.
func TestFilesOfTheGroupAreChecked(t *testing.T) {
	text := strings.Replace(sharing("127.0.0.1:1", ""), "] }, gates", "], tls: { enabled: true, caFile: /nowhere } }, gates", 1)
	cfg := configured.From(t, text)
	if err := daemon.Check(cfg); err == nil || !strings.Contains(err.Error(), "fleet.redis.tls") {
		t.Errorf("Check: %v; want the file of the authorities", err)
	}
}

// A change of a shared rate is answered when the group has it, or says that it has
// not; the other gate goes by it, and says where its file differs. An override ends
// in the group though the gate that was told it is gone.
func TestRatesOfAGroup(t *testing.T) {
	redis := miniredis.RunT(t)
	at := redis.Addr()
	plain := strings.Replace(sharing(at, ""), "default: { limit", "default: { rate: 100, shared: true, limit", 1)
	a, b := run(t, plain), run(t, plain)
	quota := func(r *running, name string) (q status.FleetQuota) {
		for _, q = range r.fleet().Quotas {
			if q.Name == name && q.Epoch != "" {
				return q
			}
		}
		return status.FleetQuota{}
	}
	rate := func(r *running, name string, want float64) func() bool {
		return func() bool { return quota(r, name).PerSecond == want }
	}
	soon(t, "both go by 100", func() bool { return rate(a, "orders", 100)() && rate(b, "orders", 100)() })
	if code, body := a.ask("PATCH", "/v1/ingresses/orders", `{"requests": {"rate": 300}}`); code != 200 || strings.Contains(body, "pending") {
		t.Errorf("PATCH: %d %s; want it to be in the group", code, body)
	}
	soon(t, "both go by what one was told", func() bool { return rate(a, "orders", 300)() && rate(b, "orders", 300)() })
	if q := quota(b, "orders"); q.OwnPerSecond != 100 {
		t.Errorf("the other gate says %+v; want its own 100/s", q)
	}
	if _, body := b.ask("GET", "/readyz", ""); strings.Contains(body, "differ") {
		t.Errorf("readyz tells what somebody changed as files that differ: %s", body)
	}
	key := limiter.Request{Key: "acme"}
	for _, r := range []*running{a, b} {
		if p, err := r.Gate("orders").TryAdmit(r.Gate("orders").Now(), key); err == nil {
			p.End(limiter.Success)
		}
	}
	if code, body := a.ask("PATCH", "/v1/ingresses/orders", `{"overrides": {"acme": {"rate": 5, "for": "2s"}}}`); code != 200 || strings.Contains(body, "pending") {
		t.Errorf("PATCH of an override: %d %s; want it to be in the group", code, body)
	}
	soon(t, "the other goes by the override", rate(b, "orders/~acme", 5))
	a.stop()
	soon(t, "the override ends without the gate that was told it", rate(b, "orders/~acme", 100))

	c := run(t, strings.Replace(plain, "rate: 100, burstSeconds", "rate: 50, burstSeconds", 1))
	soon(t, "a gate with another file is the last to tell", func() bool { return rate(b, "orders", 50)() && rate(c, "orders", 50)() })
	soon(t, "the gate with the old file says so", func() bool {
		_, body := b.ask("GET", "/readyz", "")
		_, metrics := b.ask("GET", "/metrics", "")
		return strings.Contains(body, "shared rates differ between the files of gates: orders is 50/s by the file of gate") && strings.Contains(metrics, "admitd_fleet_rates_differ 1")
	})
	soon(t, "explain says so", func() bool {
		_, body := b.ask("GET", "/v1/explain/orders/acme", "")
		return strings.Contains(body, "The files of gates differ: orders is 50/s by the file of gate ")
	})
	redis.Close()
	if code, body := b.ask("PATCH", "/v1/ingresses/orders", `{"requests": {"rate": 70}}`); code != 200 || !strings.Contains(body, `"pending":"fleet: the group has not taken the rate of: orders`) {
		t.Errorf("PATCH without Redis: %d %s; want what is pending", code, body)
	}
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	soon(t, "it is told when Redis is back", func() bool { return rate(c, "orders", 70)() && rate(b, "orders", 70)() })
}

// With `fallback: closed` and no group nothing passes, whoever comes: tenants that
// were never seen had a token each before the group was looked for.
func TestClosedAdmitsNobody(t *testing.T) {
	redis := miniredis.RunT(t)
	text := strings.Replace(sharing(redis.Addr(), ", fallback: closed"), "default: { limit", "default: { rate: 100, shared: true, limit", 1)
	text = strings.Replace(text, "requests: { rate: 100, burstSeconds: 2, shared: true }", "mode: enforce", 1)
	r := run(t, text)
	gate := r.Gate("orders")
	admitted := func(from, to int) (n int) {
		for i := from; i < to; i++ {
			if p, err := gate.TryAdmit(gate.Now(), limiter.Request{Key: fmt.Sprint("tenant", i)}); err == nil {
				p.End(limiter.Success)
				n++
			}
		}
		return n
	}
	soon(t, "it is leased", func() bool { return r.fleet().Mode == "leased" })
	if n := admitted(0, 10); n != 10 {
		t.Errorf("%d of 10 new tenants are admitted while the group answers", n)
	}
	redis.Close()
	soon(t, "it is closed", func() bool { return r.fleet().Mode == "closed" })
	if n := admitted(100, 300); n != 0 {
		t.Errorf("%d of 200 new tenants are admitted without the group; want none", n)
	}
	late := run(t, text)
	gate = late.Gate("orders")
	if n := admitted(300, 500); n != 0 {
		t.Errorf("%d of 200 tenants are admitted by a gate that starts without the group; want none", n)
	}
}
