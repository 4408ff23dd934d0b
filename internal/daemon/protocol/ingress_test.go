package protocol_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/protocol"
	"github.com/admitd/admitd/internal/testkit/configured"
)

// Every change is taken over by the gate and the server that run, but that of the
// protocol, and of an ingress that gets a listener or loses it. Few take another
// listener on the same socket.
func TestReplaces(t *testing.T) {
	const (
		web   = "ingresses: [ { name: a, listen: 127.0.0.1:1, backend: http://127.0.0.1:2"
		mongo = "ingresses: [ { name: a, protocol: mongodb, listen: 127.0.0.1:1, backend: 127.0.0.1:2"
	)
	for _, tc := range []struct {
		base, change string
		listens      bool
	}{
		{web, ", drainTimeout: 1s, objective: 1s, gates: 3, proxyProtocol: true", false},
		{web, ", http: { streamIdle: 3s }", false},
		{web, ", http: { headerTimeout: 1s }", true},
		{web, ", http: { idleTimeout: 1s }", true},
		{web, ", maxHeaderBytes: 8KiB", true},
		{web, ", tls: { certFile: a, keyFile: b }", true},
		{mongo, ", partitions: { by: database }, tls: { certFile: a, keyFile: b }, mongodb: { dialTimeout: 1s }", false},
	} {
		old, next := configured.Ingress(t, tc.base+" } ]"), configured.Ingress(t, tc.base+tc.change+" } ]")
		for _, p := range protocol.All() {
			if p.Name != next.Protocol {
				continue
			}
			if got := p.NeedsListener(old, next); got != tc.listens || p.NeedsListener(next, next) {
				t.Errorf("after%s another listener is needed: %v; want %v", tc.change, got, tc.listens)
			}
		}
		if protocol.Replaces(old, next) {
			t.Errorf("%s replaces the ingress", tc.change)
		}
	}
	for _, next := range []string{"ingresses: [ { name: a } ]", mongo + " } ]"} {
		if !protocol.Replaces(configured.Ingress(t, web+" } ]"), configured.Ingress(t, next)) {
			t.Errorf("%s: taken over by the server that runs", next)
		}
	}
}

// The default cost reaches every class of commands that has no other.
func TestMongoCosts(t *testing.T) {
	got := protocol.MongoCosts(&config.Cost{Default: 3, ByOperation: map[string]float64{"write": 5, "aggregate": 9}})
	want := map[string]float64{"read": 3, "write": 5, "admin": 3, "other": 3, "aggregate": 9}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
}
