package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// wires has a gate per wire protocol before a backend that is not there.
const wires = `
ingresses:
  - { name: db, protocol: mongodb, listen: "127.0.0.1:0", backend: %[1]q, partitions: { by: %[2]s } }
  - { name: queue, protocol: pulsar, listen: "127.0.0.1:0", backend: %[1]q, pulsar: { topicPublishRate: { messages: %[3]d }, method: %[4]s } }
`

// Gates for wire protocols run before their backends do, count connections, and take
// changes over in place.
func TestWireIngresses(t *testing.T) {
	nobody := freeAddress(t)
	p := startProcess(t, fmt.Sprintf(wires, nobody, "database", 10, "auto"))
	connect := func(ingress string) {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url(ingress), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	for _, ingress := range []string{"db", "queue"} {
		connect(ingress)
		p.becomes(fmt.Sprintf("admitd_connections_accepted_total{ingress=%q}", ingress), 1)
	}
	p.put(fmt.Sprintf(wires, nobody, "database", 20, "auto"))
	if n := p.count("ingress listens"); n != 2 {
		t.Errorf("%d servers after a change of rates; want the same two", n)
	}
	p.put(fmt.Sprintf(wires, nobody, "collection", 20, "hold"))
	if n := p.count("ingress listens"); n != 2 {
		t.Errorf("%d servers after changes of what requests are told by; want the same two", n)
	}
	connect("db")
	if status, body := p.api(http.MethodGet, "/v1/status", ""); status != http.StatusOK || !strings.Contains(body, `"mongodb"`) || !strings.Contains(body, `"pulsar"`) {
		t.Errorf("status = %d %s; want both gates", status, body)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d; want 0", code)
	}
}
