package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/admitd/admitd/algorithms/parts"
	"github.com/admitd/admitd/internal/fleet/pool"
	"github.com/admitd/admitd/internal/history"
)

// A running daemon says why a limit is what it is, in sentences, and what the
// figures of its port are named.
func TestExplainRunning(t *testing.T) {
	p := startProcess(t, fmt.Sprintf(orders, startBackend(t).URL, "1s", 0))
	res, err := http.Get(p.url("orders"))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	var out bytes.Buffer
	waitFor(t, "the limit to be known", func() bool { // before its first second nothing is
		out.Reset()
		return run(t.Context(), []string{"explain", "--admin", p.admin, "orders"}, streams{&out, io.Discard}) == nil
	})
	if !strings.HasPrefix(out.String(), "The limit of default is ") || !strings.Contains(out.String(), " in flight.") {
		t.Errorf("explain printed %q", out.String())
	}
	err = run(t.Context(), []string{"explain", "--admin", p.admin, "orders", "nobody"}, streams{io.Discard, io.Discard})
	if exit, ok := errors.AsType[exitError](err); !ok || exit.code != exitRefused {
		t.Errorf("explain of nobody: %v; want to end with %d", err, exitRefused)
	}
	err = run(t.Context(), []string{"explain", "--admin", "http://127.0.0.1:1", "orders"}, streams{io.Discard, io.Discard})
	if exit, ok := errors.AsType[exitError](err); !ok || exit.code != exitUnreachable {
		t.Errorf("explain without a daemon: %v; want to end with %d", err, exitUnreachable)
	}
}

// Every reason that an algorithm gives is explained in words.
func TestWhysHaveWords(t *testing.T) {
	for _, why := range append(parts.Whys(), pool.WhyFleet) {
		if history.Words(why) == "" {
			t.Errorf("nothing says what %q means", why)
		}
	}
}
