package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An operator rehearses a clock fault: limits fall back to their fixed form,
// every place that an operator looks at says so, and requests go on. That it
// recovers, ten minutes after the last evidence, is tested in virtual time by
// the clock room.
func TestRehearsedClockFault(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, fmt.Sprintf(orders, b.URL, "1s", 0)+
		"    partitions: { default: { limit: { algorithm: gradient2, initialLimit: 50, fallback: { limit: 13 } } } }\n",
		"--clock-fault", "frozen@1s+2s")
	p.said("rehearsing a clock fault: readings of the clock are bent on purpose")
	p.becomes("admitd_clock_trusted", 0)
	p.becomes(`admitd_fallback_active{ingress="orders"}`, 1)
	p.becomes(`admitd_concurrency_limit{algorithm="gradient2",ingress="orders",partition="default"}`, 13)
	p.said("clock is not trusted: adaptive limits are fixed until it recovers")
	if status, body := p.api(http.MethodGet, "/readyz", ""); status != http.StatusOK || !strings.Contains(body, "clock") {
		t.Errorf("readyz = %d %s; want 200 with a word about the clock", status, body)
	}
	// Without a query one reading is shared for a second, and may be of before.
	if _, body := p.api(http.MethodGet, "/v1/status?partitions=0", ""); !strings.Contains(body, `"trusted":false`) && !strings.Contains(body, `"trusted": false`) {
		t.Errorf("status says nothing of the clock: %s", body)
	}
	serves(t, p.url("orders"))
}
