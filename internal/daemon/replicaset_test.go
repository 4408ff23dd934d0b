package daemon_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/internal/modelmongo"
	"github.com/admitd/admitd/internal/testkit/configured"
)

// A replica set behind the gate would send drivers around it: the daemon does
// not start, and says how to fix that. With its members mapped it starts, and so
// it does while the backend does not answer.
func TestReplicaSetIsNotBypassed(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	backend := modelmongo.New(1, 0)
	backend.Join("rs0", address, address)
	go func() { _ = backend.Serve(t.Context(), ln) }()

	const auto, members = `{}`, `{"topology": {"mode": "members", "members": {%q: "gate.example:27017"}}}`
	for name, tc := range map[string]struct {
		backend, settings string
		refused           bool
	}{
		"auto":           {address, auto, true},
		"members mapped": {address, fmt.Sprintf(members, address), false},
		"no answer":      {"127.0.0.1:1", auto, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := startMongo(t, tc.backend, tc.settings)
			if (err != nil) != tc.refused {
				t.Fatalf("start: %v; want refused = %v", err, tc.refused)
			}
			if tc.refused && (!strings.Contains(err.Error(), mongogate.ErrBypass.Error()) || !strings.Contains(err.Error(), "members")) {
				t.Errorf("start: %v; want what is wrong and how to fix it", err)
			}
		})
	}
}

// startMongo runs a daemon until it listens, and returns why it does not.
func startMongo(t *testing.T, backend, settings string) error {
	t.Helper()
	cfg := configured.From(t, fmt.Sprintf(`{"log": {"level": "error"}, "admin": {"listen": "127.0.0.1:0"}, "ingresses": [
		{"name": "db", "protocol": "mongodb", "listen": "127.0.0.1:0", "backend": %q, "drainTimeout": "10ms", "mongodb": %s}]}`, backend, settings))
	d, err := daemon.New(cfg, daemon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-d.Up():
	case <-time.After(20 * time.Second):
		t.Fatal("neither up nor refused after 20 s")
	}
	cancel()
	<-ended
	return nil
}
