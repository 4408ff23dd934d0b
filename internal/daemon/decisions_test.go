package daemon_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/internal/testkit/configured"
	"github.com/admitd/admitd/limiter"
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

// Of two headers that make the key the first counted, and the backend saw both: a
// tenant without tokens passed under any name. The gate answers that with 400. What
// a proxy joined with a comma may have been two.
func TestProxiesTellAmbiguousKeys(t *testing.T) {
	d, err := daemon.Standing(configured.From(t, "ingresses: [ { name: shop, partitions: { by: [\"header:X-Tenant\", \"header:User-Agent\"] } } ]"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		header    http.Header
		joined    bool
		partition string
		refused   bool
	}{
		"one":                  {header: http.Header{"X-Tenant": {"a"}}},
		"two":                  {header: http.Header{"X-Tenant": {"a", "b"}}, refused: true},
		"two, another key":     {header: http.Header{"X-Tenant": {"a", "b"}}, partition: "p"},
		"joined":               {header: http.Header{"X-Tenant": {"a,b"}}, joined: true, refused: true},
		"a comma":              {header: http.Header{"X-Tenant": {"a,b"}}},
		"a comma of a browser": {header: http.Header{"X-Tenant": {"a"}, "User-Agent": {"Mozilla/5.0 (KHTML, like Gecko)"}}, joined: true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header = tc.header
		permit, err := d.Admit(t.Context(), &decide.Ask{Ingress: "shop", HTTP: r, Joined: tc.joined, Partition: tc.partition})
		if permit.End(limiter.Ignored); errors.Is(err, decide.ErrUnacceptable) != tc.refused || err != nil && !tc.refused {
			t.Errorf("%s: %v; want it refused: %v", name, err, tc.refused)
		}
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
