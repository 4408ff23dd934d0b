package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const ms = time.Millisecond

// fixed is a limit that stands still, and refuses at once what is above.
func fixed(n int) string {
	return fmt.Sprintf("limit: { algorithm: fixed, limit: %d }, queue: { depth: 0 }", n)
}

// tenants returns n names.
func tenants(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("tenant-%d", i))
	}
	return all
}

// hangUp closes the connection of a request that came in instead of answering it.
func hangUp(w http.ResponseWriter) int {
	if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = c.Close()
	}
	return 0
}

func phases() []*phase {
	tenant := "partitions: { by: \"header:X-Tenant\", "
	return []*phase{
		{name: "calm", streams: []stream{{rate: 100}}, verdict: []string{"admitting"}},
		{
			name: "calm-105ms", serve: takes(105 * ms), ingress: "partitions: { default: { " + fixed(50) + " } }", limit: 50,
			streams: []stream{{rate: 60}}, verdict: []string{"admitting"},
		},
		{
			name: "overload", serve: takes(40 * ms), ingress: "partitions: { default: { " + fixed(5) + " } }", limit: 5,
			streams: []stream{{rate: 250}}, verdict: []string{"refusing"}, says: []string{"concurrency limit"},
		},
		{
			name: "overload-default", serve: narrow(5, 40*ms), streams: []stream{{rate: 250}}, verdict: []string{"refusing"}, moves: true, lasts: 5 * time.Second,
		},
		{
			name: "rate", ingress: "requests: { rate: 60 }", streams: []stream{{rate: 250}}, verdict: []string{"refusing"},
			says: []string{"request rate, the ingress may take 60/s"},
		},
		{
			name:    "tenants",
			ingress: tenant + "share: own, named: [ { name: noisy, match: noisy, rate: 20 }, { name: fix, match: fix, " + fixed(2) + " } ] }",
			serve:   takes(40 * ms), named: []string{"noisy", "fix"},
			streams: []stream{{rate: 120, tenants: []string{"noisy"}}, {rate: 80, tenants: []string{"fix"}}, {rate: 20, tenants: []string{"quiet"}}},
			verdict: []string{"refusing"},
			explain: map[string][]string{"fix": {"!request rate", "2"}, "noisy": {"request rate", "!concurrency"}, "quiet": {"!request rate (", "!are refused"}},
		},
		{
			name:    "total",
			ingress: tenant + "total: 6, default: { limit: { algorithm: fixed, limit: 20 }, queue: { depth: 10, maxWait: 100ms } } }",
			serve:   takes(40 * ms), limit: 6,
			streams: []stream{{rate: 300, tenants: tenants(3)}}, verdict: []string{"refusing"}, says: []string{"the total of 6 permits is used up"},
		},
		{
			name:    "share-one",
			ingress: tenant + "share: one, default: { " + fixed(6) + " } }",
			serve:   takes(40 * ms), limit: 6,
			streams: []stream{{rate: 300, tenants: tenants(3)}}, verdict: []string{"refusing"}, says: []string{"total of 6"},
		},
		{
			name: "callers-leave", serve: takes(200 * ms), ingress: "partitions: { default: { " + fixed(1000) + " } }", limit: 1000,
			streams: []stream{{rate: 150, patience: 80 * ms}, {rate: 10}}, verdict: []string{"callers_leave"},
		},
		{
			name: "give-up-waiting", serve: takes(40 * ms), ingress: "partitions: { default: { limit: { algorithm: fixed, limit: 2 }, queue: { depth: 100, maxWait: 5s } } }", limit: 2,
			streams: []stream{{rate: 100, patience: 150 * ms}}, verdict: []string{"callers_leave"},
		},
		{name: "errors-500", serve: answers(500, 20*ms), streams: []stream{{rate: 80}}, verdict: []string{"backend_errors"}},
		{name: "errors-503", serve: answers(503, 20*ms), streams: []stream{{rate: 80}}, verdict: []string{"backend_errors"}},
		{name: "errors-404", serve: answers(404, 20*ms), streams: []stream{{rate: 80}}},
		{
			name: "some-errors", streams: []stream{{rate: 100}}, verdict: []string{"backend_errors"},
			serve: func(w http.ResponseWriter, r *http.Request, since time.Duration, n int) int {
				if n%4 == 0 {
					return answers(500, 5*ms)(w, r, since, n)
				}
				return takes(20*ms)(w, r, since, n)
			},
		},
		{
			name: "slow", lasts: 6 * time.Second, warm: 4 * time.Second, streams: []stream{{rate: 40}}, verdict: []string{"backend_slow", "refusing"},
			ingress: "partitions: { default: { limit: { algorithm: knee, initialLimit: 40, minLimit: 40 } } }",
			serve: func(w http.ResponseWriter, r *http.Request, since time.Duration, n int) int {
				if since > 3*time.Second {
					return takes(120*ms)(w, r, since, n)
				}
				return takes(20*ms)(w, r, since, n)
			},
		},
		{
			name: "dead", streams: []stream{{rate: 60}}, verdict: []string{"backend_down"}, says: []string{"answers nothing", "unreachable"},
			during: func(_ context.Context, p *play) error { p.backend.close(); return nil },
		},
		{
			name: "hangs-up", streams: []stream{{rate: 80, method: http.MethodPost}}, verdict: []string{"backend_fails"},
			serve: func(w http.ResponseWriter, r *http.Request, since time.Duration, n int) int {
				if n%4 == 0 {
					time.Sleep(10 * ms)
					return hangUp(w)
				}
				return takes(20*ms)(w, r, since, n)
			},
		},
		{
			name: "short-outage", lasts: 6 * time.Second, streams: []stream{{rate: 50, method: http.MethodPost}}, moves: true,
			during: outage, after: outageIsTold,
		},
		{name: "a-connection-each", streams: []stream{{rate: 60, close: true}}, verdict: []string{"admitting"}},
		{name: "http2", streams: []stream{{rate: 100, h2: true}}, verdict: []string{"admitting"}},
		{name: "http2-leave", serve: takes(200 * ms), ingress: "partitions: { default: { " + fixed(1000) + " } }", limit: 1000, streams: []stream{{rate: 100, h2: true, patience: 80 * ms}}, verdict: []string{"callers_leave"}},
		{
			name: "uploads", streams: []stream{{rate: 10, method: http.MethodPost, body: 100_000, over: time.Second}}, lasts: 5 * time.Second, moves: true, verdict: []string{"admitting"},
		},
		{
			name: "downloads", streams: []stream{{rate: 5}}, verdict: []string{"admitting"},
			serve: func(w http.ResponseWriter, _ *http.Request, _ time.Duration, _ int) int {
				b := make([]byte, 1<<20)
				for range 2 {
					_, _ = w.Write(b) // a client that leaves is in the ledger
				}
				return http.StatusOK
			},
			moves: true,
		},
		{
			name: "invalid", ingress: "maxBodyBytes: 10000, maxHeaderBytes: 8192", streams: []stream{
				{rate: 4}, {rate: 40, method: http.MethodPost, body: 20_000}, {rate: 10, header: map[string]string{"X-Large": strings.Repeat("x", 100_000)}},
			}, verdict: []string{"invalid"}, moves: true,
		},
		{
			name: "exempt-and-classes", ingress: "requests: { rate: 50, exempt: { operations: [\"GET /health\"] } }, classes: { by: \"header:X-Class\" }",
			streams: []stream{{rate: 30, path: "/health", class: "critical"}, {rate: 60, class: "critical"}, {rate: 60, class: "sheddable"}},
			verdict: []string{"refusing"},
		},
		{name: "token-queue", ingress: "requests: { rate: 50, burstSeconds: 0.1, queueDepth: 20 }", streams: []stream{{rate: 80}}, verdict: []string{"refusing"}},
		{
			name: "permit-queue", serve: takes(40 * ms), ingress: "partitions: { default: { limit: { algorithm: fixed, limit: 4 }, queue: { depth: 20, maxWait: 100ms } } }", limit: 4,
			streams: []stream{{rate: 150}}, verdict: []string{"refusing"},
		},
		{name: "shadow", ingress: "mode: shadow, requests: { rate: 30 }", streams: []stream{{rate: 100}}, verdict: []string{"would_refuse"}},
		{name: "off", ingress: "mode: off, requests: { rate: 30 }", streams: []stream{{rate: 100}}, verdict: []string{"admitting"}},
		{name: "overflow", ingress: tenant + "max: 20 }", streams: []stream{{rate: 150, tenants: tenants(300)}}, verdict: []string{"admitting", "refusing"}},
		{name: "reloads", ingress: tenant + "share: own, named: [ { name: gold, match: gold, " + fixed(1) + " }, { name: tin, match: tin, " + fixed(50) + " } ] }", named: []string{"gold", "tin"},
			streams: []stream{{rate: 60, tenants: []string{"gold"}}, {rate: 60, tenants: []string{"tin"}}}, moves: true,
			during: func(ctx context.Context, p *play) error {
				time.Sleep(1500 * ms)
				p.configure(tenant + "share: own, named: [ { name: gold, match: gold, " + fixed(1) + " } ] }")
				return p.gate.reload(ctx)
			}},
	}
}

// narrow answers after d, so many at a time.
func narrow(workers int, d time.Duration) behaviour {
	places := make(chan struct{}, workers)
	return func(w http.ResponseWriter, r *http.Request, since time.Duration, n int) int {
		places <- struct{}{}
		defer func() { <-places }()
		return takes(d)(w, r, since, n)
	}
}

// outage has the backend away for two seconds.
func outage(ctx context.Context, p *play) error {
	time.Sleep(1500 * ms)
	p.backend.close()
	time.Sleep(2 * time.Second)
	b, err := newBackend(ctx, p.backend.address, p.ledger, p.backend.serve)
	if err != nil {
		return err
	}
	p.backend = b
	return nil
}

// outageIsTold looks for the outage in the log: how many failures there were, and its end.
func outageIsTold(_ context.Context, p *play, s *sheet) {
	failures := 0.0
	lines := p.gate.log.with(`"ingress":"` + p.name + `"`)
	for _, line := range lines {
		failures += logged(line, "failures")
	}
	s.exact("log", "failures of the outage", float64(p.ledger.count(failed)), failures)
	if again := p.gate.log.with("backend answers again", `"ingress":"`+p.name+`"`); len(again) != 1 {
		s.fail("the log tells of the end of the outage %d times: %q", len(again), lines)
	}
}
