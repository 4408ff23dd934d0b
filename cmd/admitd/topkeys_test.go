package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/admitd/admitd/status"
)

// Who makes the load is told: by the port with application, client and operation,
// and by the log with the tenant's true key, where it said "default".
func TestWhoMakesTheLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the log's summary")
	}
	p := startProcess(t, fmt.Sprintf(`
ingresses:
  - name: orders
    listen: 127.0.0.1:0
    backend: %s
    requests: { rate: 5, burstSeconds: 1 }
    partitions: { by: "header:X-Tenant" }
`, startBackend(t).URL))
	url := p.url("orders")
	ask := func() {
		for i := range 40 {
			tenant, agent, path := "t-quiet", "web/2.0 (x)", "/v1/items/7"
			if i%4 > 0 {
				tenant, agent, path = "t-storm", "batch/1.3", "/reports/daily"
			}
			mustGet(t, url+path, "X-Tenant", tenant, "User-Agent", agent)
		}
	}
	var top status.Top
	waitFor(t, "the port to know", func() bool {
		ask()
		code, body := p.api(http.MethodGet, "/v1/top?ingress=orders", "")
		top = nil
		return code == http.StatusOK && json.Unmarshal([]byte(body), &top) == nil && len(top["orders"]["application"]) == 2
	})
	of := top["orders"]
	if a := of["application"][0]; a.Name != "batch" || !(a.Refused > 0 && a.Refused < a.Received) {
		t.Errorf("by application: %+v; want batch first, most of it refused", of["application"])
	}
	if ops := of["operation"]; len(ops) != 2 || ops[0].Name != "GET /reports" || ops[1].Name != "GET /v1/items" {
		t.Errorf("by operation: %+v; want GET /reports and GET /v1/items", ops)
	}
	if c := of["client"]; len(c) != 1 || c[0].Name != "127.0.0.1" {
		t.Errorf("by client: %+v; want 127.0.0.1", c)
	}
	if _, known := of["user"]; known {
		t.Errorf("by user: %+v; HTTP tells none", of["user"])
	}
	for _, query := range []string{"by=tenant", "order=name", "n=0", "n=101"} {
		if code, body := p.api(http.MethodGet, "/v1/top?"+query, ""); code != http.StatusBadRequest {
			t.Errorf("%s = %d %s; want 400", query, code, body)
		}
	}
	if code, _ := p.api(http.MethodGet, "/v1/top?ingress=nobody", ""); code != http.StatusNotFound {
		t.Errorf("an unknown ingress = %d; want 404", code)
	}
	if _, body := p.api(http.MethodGet, "/v1/status", ""); !strings.Contains(body, `"top":{`) {
		t.Error("the status does not tell who makes the load")
	}
	l := p.line("to sum up", func(l logLine) bool { ask(); return l.is("rejecting requests", "orders") })
	if l["most_rejected_partition"] != "t-storm" {
		t.Errorf("the log names %v; want t-storm", l["most_rejected_partition"])
	}
}
