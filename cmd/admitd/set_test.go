package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// One tenant is raised now, for a time, and exactly that is undone; everybody
// else is left alone, and a reload keeps it.
func TestOneTenantNowAndBack(t *testing.T) {
	const tenants = `
ingresses:
  - name: orders
    listen: 127.0.0.1:0
    backend: %s
    partitions:
      by: "header:X-Tenant"
      default: { rate: 1, burstSeconds: 2 }
`
	p := startProcess(t, fmt.Sprintf(tenants, startBackend(t).URL))
	url := p.url("orders")
	ask := func(tenant string, n int) (admitted int) {
		t.Helper()
		for range n {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Tenant", tenant)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				admitted++
			}
		}
		return admitted
	}
	command := func(line string) (string, error) {
		var out strings.Builder
		args := strings.Fields(line)
		err := run(t.Context(), append(args, "--admin", p.admin), streams{&out, io.Discard})
		return out.String(), err
	}
	must := func(line, want string) {
		t.Helper()
		if out, err := command(line); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, printed %q; want %q", line, err, out, want)
		}
	}
	for line, want := range map[string]string{"explain --admin " + p.admin + " o": "orders\n", "set --admin " + p.admin + " orders d": "default\n", "unset --admin " + p.admin + " nothing d": ":4\n"} {
		var out strings.Builder
		if err := run(t.Context(), append([]string{"__complete"}, strings.Fields(line)...), streams{&out, io.Discard}); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("completing %s: %v %q; want %q", line, err, out.String(), want)
		}
	}
	if n := ask("a", 10); n > 4 {
		t.Errorf("before: %d of 10 were admitted at 1/s", n)
	}
	must("get orders", "Nothing is overridden")
	must("set orders a rate=unlimited --for 30m", "a of orders is overridden (id 1) for 30m0s. To take it back: admitd unset orders 1")
	must("set orders future rate=none", "(id 2)")
	must("get orders", "unlimited")
	if n := ask("a", 20); n != 20 {
		t.Errorf("raised: %d of 20 were admitted", n)
	}
	if n := ask("future", 5); n != 0 {
		t.Errorf("blocked, before it was ever seen: %d of 5 were admitted", n)
	}
	if n := ask("b", 10); n > 4 {
		t.Errorf("another one: %d of 10 were admitted", n)
	}
	p.becomes(`admitd_runtime_overrides{ingress="orders"}`, 2)
	if status, answer := p.api(http.MethodPost, "/v1/reload", ""); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, answer)
	}
	if n := ask("a", 20); n != 20 {
		t.Errorf("after a reload: %d of 20 were admitted", n)
	}
	must("unset orders 1", "Taken back")
	must("unset orders future", "Taken back")
	p.becomes(`admitd_runtime_overrides{ingress="orders"}`, 0)
	if n := ask("a", 20); n > 6 {
		t.Errorf("taken back: %d of 20 were admitted at 1/s", n)
	}
	if n := ask("future", 2); n == 0 {
		t.Error("unblocked: nothing is admitted")
	}
	must("set orders requests.rate=500", "orders is changed until the next reload")
	var told []string
	for _, l := range append(p.all("override set", "orders"), p.all("override undone", "orders")...) {
		told = append(told, fmt.Sprint(l["id"], " ", l["key"], ": ", l["before"] != "none", " -> ", l["after"] != "none"))
	}
	if d := cmp.Diff([]string{"1 a: false -> true", "2 future: false -> true", "1 a: true -> false", "2 future: true -> false"}, told); d != "" {
		t.Errorf("audit lines (-want +got):\n%s", d)
	}
	for line, want := range map[string]string{
		"set orders a rate=0":          "say rate=unlimited, or none",
		"set orders requests.rate=0":   "say requests.rate=unlimited",
		"set orders a rate=-1":         "overrides.a.rate: want requests per second",
		"set orders a for=soon":        "overrides.a.for: want a time such as 30m",
		"set nothing a rate=1":         "no such ingress; there is orders",
		"unset orders nobody":          "no such override",
		"set orders a limit=0":         "overrides.a.limit: want 1 to 1000000",
		"set orders a for=5m":          "overrides.a: want a rate, a burstSeconds or a limit",
		"set orders caf\xe9 rate=1":    "the key is no UTF-8: name it as the status shows it, such as sha256:",
		"explain orders caf\xe9":       `nobody has asked for the partition "sha256:`,
		"set orders a":                 "want at least one NAME=VALUE",
		"set orders mode=off --for 1m": "--for is for the override of a key",
	} {
		_, err := command(line)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", line, err, want)
		}
	}
	_, err := command("set nothing a rate=1")
	if exit, ok := errors.AsType[exitError](err); !ok || exit.code != exitRefused {
		t.Errorf("refused: %v; want to end with %d", err, exitRefused)
	}
}

// An override ends by itself when its time is over.
func TestOverrideEnds(t *testing.T) {
	p := startProcess(t, fmt.Sprintf(orders, startBackend(t).URL, "1s", 0))
	if err := run(t.Context(), []string{"set", "orders", "a", "limit=3", "--for", "200ms", "--admin", p.admin}, streams{io.Discard, io.Discard}); err != nil {
		t.Fatal(err)
	}
	p.becomes(`admitd_runtime_overrides{ingress="orders"}`, 0)
	p.said("override undone")
}
