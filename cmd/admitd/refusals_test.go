package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// limiters has one ingress per way to be refused.
const limiters = `
ingresses:
  - name: rate
    listen: 127.0.0.1:0
    backend: %[1]s
    requests: { rate: 0.01, burstSeconds: 100 }
  - name: slots
    listen: 127.0.0.1:0
    backend: %[1]s
    partitions: { by: "header:X-Tenant", default: { limit: { algorithm: fixed, limit: 1 }, queue: { depth: 0 } }, named: [ { name: shop } ] }
  - name: queue
    listen: 127.0.0.1:0
    backend: %[1]s
    partitions: { default: { limit: { algorithm: fixed, limit: 1 }, queue: { depth: 1, maxWait: 50ms } } }
  - name: cost
    listen: 127.0.0.1:0
    backend: %[1]s
    requests: { rate: 1, burstSeconds: 2 }
    cost: { header: X-Cost, byOperation: { /report: 3 } }
  - name: dear
    listen: 127.0.0.1:0
    backend: %[1]s
    requests: { rate: 1, burstSeconds: 2 }
    cost: { default: 2.5 }
  - name: plain
    listen: 127.0.0.1:0
    backend: %[1]s
    requests: { rate: 0.01, burstSeconds: 100 }
    rejection: { hints: false, status: 462 }
`

// refusal is what a client learns from a refusal.
type refusal struct {
	Status                    int
	Type, Title, Reason       string
	Ingress, Partition, Limit string
	Labels                    []any
	Wait, RateFields, Problem bool // is there a wait, are there RateLimit fields, is it problem+json
}

// read takes a refusal apart and checks what is the same in all of them.
func (a *answer) refusal(t *testing.T) refusal {
	t.Helper()
	doc := a.document(t)
	text := func(key string) string { s, _ := doc[key].(string); return s }
	same := map[string]any{"ok": 0.0, "code": 462.0, "codeName": "IngressRequestRateLimitExceeded", "status": float64(a.status), "errmsg": doc["detail"]}
	for key, want := range same {
		if doc[key] != want {
			t.Errorf("%s = %v; want %v", key, doc[key], want)
		}
	}
	if got := a.header.Get("X-Admitd-Reason"); got != text("reason") {
		t.Errorf("X-Admitd-Reason = %q; the document says %q", got, text("reason"))
	}
	wait, _ := doc["retryAfterMS"].(float64)
	seconds, _ := strconv.Atoi(a.header.Get("Retry-After"))
	if (wait > 0) != (seconds > 0) || wait > 0 && float64(seconds)*1000 < wait-1 {
		t.Errorf("Retry-After %q with retryAfterMS %v; want whole seconds, at least 1, not less", a.header.Get("Retry-After"), doc["retryAfterMS"])
	}
	labels, _ := doc["errorLabels"].([]any)
	return refusal{
		Status: a.status, Type: text("type"), Title: text("title"), Reason: text("reason"),
		Ingress: text("ingress"), Partition: text("partition"), Limit: text("limit"), Labels: labels, Wait: wait > 0,
		RateFields: a.header.Get("RateLimit") != "" && a.header.Get("RateLimit-Policy") != "",
		Problem:    a.header.Get("Content-Type") == "application/problem+json",
	}
}

// Each limiter is exceeded through the running daemon, and the refusal says
// what the contract says.
func TestRefusals(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, fmt.Sprintf(limiters, b.URL))
	const (
		quota = "https://iana.org/assignments/http-problem-types#quota-exceeded"
		busy  = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	)
	retry, never := []any{"SystemOverloadedError", "RetryableError"}, []any{"SystemOverloadedError"}
	for name, tc := range map[string]struct {
		ingress, path string
		fields        []string
		first         func(t *testing.T, url string) // uses the limit up
		want          refusal
	}{
		"rate": {ingress: "rate", first: serves, want: refusal{
			Status: 429, Type: quota, Reason: "request_rate", Limit: "ingress", Partition: "default", Labels: retry, Wait: true, RateFields: true,
		}},
		"concurrency": {ingress: "slots", fields: []string{"X-Tenant", "shop"}, first: func(t *testing.T, url string) {
			t.Helper()
			p.put(strings.Replace(fmt.Sprintf(limiters, b.URL), "name: shop", "name: shop, limit: { algorithm: fixed, limit: 1 }, queue: { depth: 0 }", 1))
			holdAs(t, b, url, "shop")
		}, want: refusal{
			Status: 503, Type: busy, Reason: "concurrency_limit", Limit: "partition", Partition: "shop", Labels: retry, Wait: true,
		}},
		"queue": {ingress: "queue", first: func(t *testing.T, url string) { t.Helper(); b.hold(t, url) }, want: refusal{
			Status: 503, Type: busy, Reason: "queue_timeout", Limit: "partition", Partition: "default", Labels: retry, Wait: true,
		}},
		"cost": {ingress: "cost", path: "/report", first: serves, want: refusal{
			Status: 429, Type: quota, Reason: "cost_exceeds_burst", Limit: "ingress", Partition: "default", Labels: never, RateFields: true,
		}},
		"cost by header": {ingress: "cost", fields: []string{"X-Cost", "100"}, want: refusal{
			Status: 429, Type: quota, Reason: "cost_exceeds_burst", Limit: "ingress", Partition: "default", Labels: never, RateFields: true,
		}},
		// The default cost was not passed to the gates once.
		"default cost": {ingress: "dear", want: refusal{
			Status: 429, Type: quota, Reason: "cost_exceeds_burst", Limit: "ingress", Partition: "default", Labels: never, RateFields: true,
		}},
		"no hints, one status": {ingress: "plain", first: serves, want: refusal{
			Status: 462, Type: quota, Reason: "request_rate", Limit: "ingress", Partition: "default", Labels: retry,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			url := p.url(tc.ingress)
			if tc.first != nil {
				tc.first(t, url)
			}
			tc.want.Ingress, tc.want.Problem = tc.ingress, true
			got := mustGet(t, url+tc.path, tc.fields...).refusal(t)
			if tc.want.Title = got.Title; got.Title == "" {
				t.Error("the refusal has no title")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
			series := fmt.Sprintf("admitd_requests_rejected_total{ingress=%q,limit=%q,partition=%q,reason=%q}", tc.ingress, tc.want.Limit, tc.want.Partition, tc.want.Reason)
			if n, ok := p.metric(series); !ok || n < 1 {
				t.Errorf("%s = %v, %v; want at least 1", series, n, ok)
			}
		})
	}
}

// A caller of the decision API that names no cost pays the ingress's default.
func TestAdmissionPaysDefaultCost(t *testing.T) {
	p := startProcess(t, `
decisions: { listen: "127.0.0.1:0" }
ingresses: [ { name: jobs, requests: { rate: 0.01, burstSeconds: 1000 }, cost: { default: 6 } } ]
`)
	admit := func(body string) int {
		t.Helper()
		return ask(t, http.MethodPost, p.decisions()+"/v1/admissions", body).status
	}
	got := []int{admit(`{"ingress": "jobs"}`), admit(`{"ingress": "jobs"}`), admit(`{"ingress": "jobs", "cost": 4}`), admit(`{"ingress": "nobody"}`)}
	if want := []int{201, 429, 201, 404}; !cmp.Equal(want, got) {
		t.Errorf("with 10 tokens, admissions for 6, 6 and 4, and of nobody = %v; want %v", got, want)
	}
}

// serves sends a request that must pass.
func serves(t *testing.T, url string) {
	t.Helper()
	if a := mustGet(t, url); a.status != http.StatusOK {
		t.Fatalf("the first request got %d: %s; want 200", a.status, a.body)
	}
}

// holdAs is hold for a tenant.
func holdAs(t *testing.T, b *backend, url, tenant string) {
	t.Helper()
	before := b.holding.Load()
	go func() { _, _ = get(url+"/hold", "X-Tenant", tenant) }() // ends with the backend
	waitFor(t, "the backend to have the request", func() bool { return b.holding.Load() > before })
}

// While it drains, the daemon refuses in the same words, until what is in
// flight has ended. Whoever has no connection finds nobody listening.
func TestRefusalsWhileDraining(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, fmt.Sprintf(limiters, b.URL))
	inFlight := b.hold(t, p.url("slots"))
	p.signal(syscall.SIGTERM)
	waitFor(t, "the drain", func() bool {
		status, _ := p.api(http.MethodGet, "/readyz", "")
		return status == http.StatusServiceUnavailable
	})
	if status, _ := p.api(http.MethodGet, "/healthz", ""); status != http.StatusOK {
		t.Errorf("healthz while draining = %d; want 200: it is alive", status)
	}
	if a, err := get(p.url("slots")); err == nil {
		t.Errorf("a new connection while draining was served: %d", a.status)
	}
	b.release()
	inFlight.served(t)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d; want 0 after a clean drain", code)
	}
}

// Shadow mode decides and counts, and refuses nobody.
func TestShadowRefusesNobody(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, strings.Replace(fmt.Sprintf(limiters, b.URL), "name: rate\n", "name: rate\n    mode: shadow\n", 1))
	for range 5 {
		serves(t, p.url("rate"))
	}
	p.becomes(`admitd_requests_would_reject_total{ingress="rate",limit="ingress",partition="default",reason="request_rate"}`, 4)
}
