package daemon_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/admitd/admitd/daemon"
	"github.com/admitd/admitd/decide"
	"github.com/admitd/admitd/internal/testkit/configured"
)

// What Envoys may share among them is the rate that would refuse: none where
// nothing is refused, and of a rate that gates share only this gate's part. Each
// gate once gave away the whole of it, and to a tenant of partitions.default.rate
// that nobody had asked for yet everything.
func TestQuotasOfEnvoys(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		key  string
		want float64
	}{
		"of the ingress":      {"ingresses: [ { name: shop, requests: { rate: 100 } } ]", "a", 100},
		"of a partition":      {"ingresses: [ { name: shop, requests: { rate: 100 }, partitions: { named: [ { name: gold, match: gold, rate: 10 } ] } } ]", "gold", 10},
		"of every tenant":     {"ingresses: [ { name: shop, partitions: { by: header:T, default: { rate: 10 } } } ]", "a", 10},
		"of a prefix":         {"ingresses: [ { name: shop, partitions: { by: header:T, named: [ { name: gold, match: g-*, rate: 10 } ] } } ]", "g-1", 10},
		"the smaller one":     {"ingresses: [ { name: shop, requests: { rate: 5 }, partitions: { by: header:T, default: { rate: 10 } } } ]", "a", 5},
		"none":                {"ingresses: [ { name: shop } ]", "a", 0},
		"in shadow mode":      {"ingresses: [ { name: shop, mode: shadow, requests: { rate: 100 } } ]", "a", 0},
		"shared by four":      {"fleet: { gates: 4, redis: { addresses: [\"127.0.0.1:1\"] } }\ningresses: [ { name: shop, requests: { rate: 100, shared: true } } ]", "a", 25},
		"its own beside that": {"fleet: { gates: 4, redis: { addresses: [\"127.0.0.1:1\"] } }\ningresses: [ { name: shop, requests: { rate: 100 } } ]", "a", 100},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configured.From(t, tc.text)
			d, err := daemon.New(cfg, daemon.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Apply(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if rate, ok := d.Quota("shop", tc.key); !ok || rate.PerSecond != tc.want {
				t.Errorf("Quota = %v, %v; want %v a second", rate, ok, tc.want)
			}
			if _, ok := d.Quota("nobody", tc.key); ok {
				t.Error("an ingress that is not there has a quota")
			}
		})
	}
}

// A tenant that is blocked kept its whole share.
func TestQuotaOfABlockedTenant(t *testing.T) {
	r := run(t, "admin: { listen: \"127.0.0.1:0\" }\ningresses: [ { name: shop, partitions: { by: header:T, default: { rate: 10 } } } ]\n")
	if status, answer := r.ask(http.MethodPatch, "/v1/ingresses/shop", `{"overrides": {"acme": {"rate": "none"}}}`); status != http.StatusOK {
		t.Fatalf("PATCH = %d %s", status, answer)
	}
	if q, _ := r.Quota("shop", "acme"); !q.Blocked {
		t.Errorf("Quota of acme = %+v; want that nothing passes", q)
	}
	if q, _ := r.Quota("shop", "other"); q.Blocked || q.PerSecond != 10 {
		t.Errorf("Quota of other = %+v; want its 10 a second", q)
	}
}

// An operation that the configuration exempts is exempt for a proxy too, which
// names it beside the request that it asks about: what it says goes first.
func TestProxiesNameExemptOperations(t *testing.T) {
	cfg := configured.From(t, "ingresses: [ { name: shop, requests: { rate: 1, exempt: { operations: [GET /ping] } } } ]")
	d, err := daemon.New(cfg, daemon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		a := decide.Ask{Via: decide.ViaAuthorize, Ingress: "shop", Operation: "GET /ping", HTTP: httptest.NewRequest(http.MethodPost, "/rpc", nil)}
		if _, err := d.Admit(t.Context(), &a); err != nil {
			t.Fatalf("request %d of an exempt operation: %v; want it admitted", i, err)
		}
	}
}
