package protocol_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/daemon/protocol"
	"github.com/admitd/admitd/internal/testkit/configured"
)

// What a running server can take over does not replace it; what it cannot, does.
func TestNeedsRestart(t *testing.T) {
	const (
		web   = "ingresses: [ { name: a, listen: 127.0.0.1:1, backend: http://127.0.0.1:2"
		mongo = "ingresses: [ { name: a, protocol: mongodb, listen: 127.0.0.1:1, backend: 127.0.0.1:2"
		queue = "ingresses: [ { name: a, protocol: pulsar, listen: 127.0.0.1:1, backend: 127.0.0.1:2"
	)
	for _, tc := range []struct {
		base, change string
		want         bool
	}{
		{web, ", mode: shadow, requests: { rate: 5, exempt: { cidrs: 10.0.0.0/8 } }", false},
		{web, ", cost: { header: X-Cost, default: 3 }, rejection: { status: 462 }, partitions: { by: client, max: 5 }", false},
		{web, ", connections: { maxOpen: 5 }, http: { via: true, maxIdle: 9 }, maxBodyBytes: 1MiB", false},
		{web, ", drainTimeout: 1s", true},
		{web, ", http: { headerTimeout: 1s }", true},
		{web, ", proxyProtocol: true", true},
		{mongo, ", requests: { rate: 5 }, partitions: { total: 5 }", false},
		{mongo, ", partitions: { by: database }", true},
		{queue, ", pulsar: { topicPublishRate: { messages: 5 }, maxPending: 7, maxTopics: 9 }, mode: shadow", false},
		{queue, ", pulsar: { method: hold }", true},
	} {
		base := tc.base
		if base == queue {
			base += ", pulsar: {}"
		}
		old, next := configured.Ingress(t, base+" } ]"), configured.Ingress(t, tc.base+tc.change+" } ]")
		if got := needsRestart(old, next); got != tc.want {
			t.Errorf("needsRestart after%s = %v; want %v", tc.change, got, tc.want)
		}
		if needsRestart(next, next) {
			t.Errorf("%s: needs a restart to become what it is", tc.change)
		}
	}
	if !needsRestart(configured.Ingress(t, web+" } ]"), configured.Ingress(t, "ingresses: [ { name: a } ]")) {
		t.Error("an ingress that loses its listener keeps its server")
	}
}

// needsRestart asks the protocol of what is to come.
func needsRestart(old, next *config.Ingress) bool {
	for _, p := range protocol.All() {
		if p.Name == next.Protocol {
			return p.NeedsRestart(old, next)
		}
	}
	return true
}

// The default cost reaches every class of commands that has no other.
func TestMongoCosts(t *testing.T) {
	got := protocol.MongoCosts(&config.Cost{Default: 3, ByOperation: map[string]float64{"write": 5, "aggregate": 9}})
	want := map[string]float64{"read": 3, "write": 5, "admin": 3, "other": 3, "aggregate": 9}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
}
