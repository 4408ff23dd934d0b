package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/status"
)

// What refuses is told with the line of the file that says so, or that it was
// changed at run time; what would be without the gate; and why a limit is what it
// is. The last lines of the log are in the archive.
func TestTold(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, fmt.Sprintf(`
ingresses:
  - name: orders
    listen: 127.0.0.1:0
    backend: %s
    partitions:
      by: "header:X-Tenant"
      default: { queue: { depth: 0 } }
      total: 2
`, b.URL))
	url := p.url("orders")
	ended := make(chan struct{})
	for _, tenant := range []string{"a", "b"} {
		before := b.holding.Load()
		go func() {
			_, _ = get(url+"/hold", "X-Tenant", tenant)
			ended <- struct{}{}
		}()
		waitFor(t, "the backend to have it", func() bool { return b.holding.Load() > before })
	}
	defer func() { b.release(); <-ended; <-ended }()
	told := func(what string, holds func(in *status.Ingress) bool) (in status.Ingress) {
		t.Helper()
		waitFor(t, what, func() bool {
			for range 20 {
				mustGet(t, url, "X-Tenant", "storm")
			}
			time.Sleep(100 * time.Millisecond)
			code, body := p.api(http.MethodGet, "/v1/status", "")
			var d status.Document
			if code != http.StatusOK || json.Unmarshal([]byte(body), &d) != nil {
				return false
			}
			in = d.Ingresses[0]
			return holds(&in)
		})
		return in
	}
	in := told("the verdict to name the line", func(in *status.Ingress) bool {
		return strings.Contains(in.Verdict.Text, "the total of 2 permits is used up (admitd.yaml:9); most asked for by storm") && in.Forecast != ""
	})
	if ok, _ := regexp.MatchString(`^Switched off, it would pass [\d.]+/s more: [\d.]+/s in all, `, in.Forecast); !ok {
		t.Errorf("forecast %q", in.Forecast)
	}
	for _, part := range in.Partitions {
		if part.Name == "storm" && !strings.Contains(part.Explain, "It has not moved since it was first seen.") {
			t.Errorf("storm explains itself with %q", part.Explain)
		}
	}
	if v, ok := p.metric(`admitd_permits_limit{ingress="orders"}`); !ok || v != 2 {
		t.Errorf("admitd_permits_limit = %v; want the total of 2", v)
	}
	if v, ok := p.metric(`admitd_concurrency_limit{algorithm="knee",ingress="orders",partition="default"}`); !ok || v != 2 {
		t.Errorf("admitd_concurrency_limit = %v; want no more than the total", v)
	}
	if code, body := p.api(http.MethodPatch, "/v1/ingresses/orders", `{"partitions":{"total":1}}`); code != http.StatusOK {
		t.Fatalf("PATCH = %d %s", code, body)
	}
	told("the verdict to say that it was changed", func(in *status.Ingress) bool {
		return strings.Contains(in.Verdict.Text, "the total of 1 permit is used up (changed at run time)")
	})
	file := t.TempDir() + "/s.tar.gz"
	if err := run(t.Context(), []string{"snapshot", "--admin", p.admin, "--out", file}, streams{io.Discard, io.Discard}); err != nil {
		t.Fatal(err)
	}
	if text := unpack(t, file)["log.txt"]; !strings.Contains(text, `"msg":"admitd serves"`) || !strings.Contains(text, "setting changed") {
		t.Errorf("the log in the archive is %q", text)
	}
}
