package daemon_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/testkit/configured"
)

// A daemon whose log nobody reads any more serves, and stops when it is asked to. It
// stood in the first line that it wrote, and had to be killed.
func TestLogThatNobodyReads(t *testing.T) {
	cfg := configured.From(t, "admin: {listen: '127.0.0.1:0'}\ningresses: [{name: web, protocol: http, listen: '127.0.0.1:0', backend: 'http://127.0.0.1:1'}]\n")
	_, pipe := io.Pipe() // its reader never reads
	d, err := daemon.New(cfg, daemon.Options{Log: pipe})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	late := time.After(time.Minute)
	select {
	case <-d.Up():
		cancel()
	case <-late:
		t.Error("does not begin while its log is not read")
		pipe.Close()
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-late:
		t.Error("does not stop while its log is not read")
	}
	cancel()
	pipe.Close()
}
