package daemon_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What was changed at run time is told beside what the file says, so that it can
// be undone one by one; a reload ends it, and what was set back is none.
func TestChangesAtRunTime(t *testing.T) {
	const content = `
admin: { listen: "127.0.0.1:0" }
ingresses:
  - name: orders
    listen: 127.0.0.1:0
    backend: http://127.0.0.1:9
    requests: { rate: 5 }
    partitions: { by: "header:X-Tenant", named: [ { name: a.b, match: a.b, rate: 7 } ] }
`
	r := run(t, content)
	ask := func() (changes []map[string]any, count float64) {
		t.Helper()
		var all struct{ Changes []map[string]any }
		var st struct{ Config struct{ Changed float64 } }
		for path, into := range map[string]any{"/v1/changes": &all, "/v1/status": &st} {
			_, answer := r.ask(http.MethodGet, path, "")
			if err := json.Unmarshal([]byte(answer), into); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		return all.Changes, st.Config.Changed
	}
	want := []map[string]any{}
	check := func(when string, count float64) {
		t.Helper()
		got, n := ask()
		if d := cmp.Diff(want, got); d != "" || n != count {
			t.Errorf("%s: changed %v, want %v; differences (-want +got):\n%s", when, n, count, d)
		}
	}
	patch := func(body string) {
		t.Helper()
		if status, answer := r.ask(http.MethodPatch, "/v1/ingresses/orders", body); status != http.StatusOK {
			t.Fatalf("PATCH = %d %s", status, answer)
		}
	}
	check("at the start", 0)
	patch(`{"requests": {"rate": 50}, "partitions": {"named": {"a.b": {"rate": 70}}}}`)
	want = []map[string]any{
		{"ingress": "orders", "path": []any{"partitions", "named", "a.b", "rate"}, "file": 7.0, "now": 70.0},
		{"ingress": "orders", "path": []any{"requests", "rate"}, "file": 5.0, "now": 50.0},
	}
	check("after a change", 2)
	patch(`{"overrides": {"tenant-1": {"rate": 3}}}`)
	check("with an override beside it", 3)
	patch(`{"requests": {"rate": 5}}`)
	want = want[:1]
	check("after one was set back", 2)
	if status, answer := r.ask(http.MethodPost, "/v1/reload", "{}"); status != http.StatusOK {
		t.Fatalf("reload = %d %s", status, answer)
	}
	want = []map[string]any{}
	check("after a reload", 1)
}
