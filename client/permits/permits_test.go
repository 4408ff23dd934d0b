package permits_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/client/permits"
	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// gates has one ingress, jobs, of two permits for each partition.
type gates struct{ gate *limiter.Gate }

func (g gates) Admit(ctx context.Context, a *decide.Ask) (limiter.Permit, error) {
	if a.Ingress != "jobs" {
		return limiter.Permit{}, decide.ErrUnknownIngress
	}
	return g.gate.Admit(ctx, limiter.Request{Key: a.Partition, Cost: a.Cost, MaxWait: a.MaxWait})
}

func (gates) Form(string, string) labels.HTTPForm { return labels.HTTPForm{} }

// two is a limit of two.
type two struct{}

func (two) Current() int                            { return 2 }
func (two) Observe(int64, time.Duration, int, bool) {}

// serve serves the decision API until the test ends.
func serve(t *testing.T) (url string, gate *limiter.Gate) {
	t.Helper()
	gate = limiter.New("jobs", &limiter.Policy{
		Rate:    limiter.Rate{PerSecond: 1000},
		Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return two{} }},
	}, limiter.Options{})
	decider := decide.NewDecider(gates{gate}, 0)
	s := httptest.NewServer(decide.NewServer(decider, decide.Options{Token: "secret"}))
	t.Cleanup(func() { s.Close(); decider.Close() })
	return s.URL, gate
}

// Work runs under a permit, and how it went is told.
func TestDo(t *testing.T) {
	url, gate := serve(t)
	c := permits.New(url, permits.Options{Token: "secret"})
	failure := errors.New("the work failed")
	for _, want := range []error{nil, failure} {
		err := c.Do(t.Context(), permits.Ask{Ingress: "jobs", TTL: time.Minute}, func(context.Context) error {
			if n := gate.Status().InFlight; n != 1 {
				t.Errorf("in flight = %d while it works; want 1", n)
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("Do = %v; want %v", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_ = c.Do(ctx, permits.Ask{Ingress: "jobs"}, func(context.Context) error { cancel(); return ctx.Err() })
	st := gate.Status()
	if n := st.Labels[0].Counts; st.InFlight != 0 || n.Dropped != 1 || n.Ignored != 1 {
		t.Errorf("in flight %d, dropped %d, ignored %d; want 0, 1, 1", st.InFlight, n.Dropped, n.Ignored)
	}
}

// A refusal says why and when; everything else is an error that is none.
func TestRefused(t *testing.T) {
	url, _ := serve(t)
	c := permits.New(url, permits.Options{Token: "secret"})
	for range 2 {
		if _, err := c.Admit(t.Context(), permits.Ask{Ingress: "jobs", Partition: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.Admit(t.Context(), permits.Ask{Ingress: "jobs", Partition: "a"})
	if refused, ok := errors.AsType[*permits.Refused](err); !ok || refused.Reason != labels.ConcurrencyLimit || refused.RetryAfterMS <= 0 || !refused.RetryableOverload() {
		t.Errorf("third = %v; want refused, with a wait", err)
	}
	for name, c := range map[string]*permits.Client{"no token": permits.New(url, permits.Options{}), "nobody there": permits.New("http://127.0.0.1:1", permits.Options{})} {
		_, err := c.Admit(t.Context(), permits.Ask{Ingress: "jobs"})
		if _, refused := errors.AsType[*permits.Refused](err); err == nil || refused {
			t.Errorf("%s: %v; want an error that is no refusal", name, err)
		}
	}
}

// closing is a body that tells whether it was closed.
type closing struct {
	io.Reader
	closed *int
}

func (c closing) Close() error { *c.closed++; return nil }

// Only 201 with a permit is a permit: any 2xx with {} was one. Every body is closed.
func TestAnswersWithoutAPermit(t *testing.T) {
	for answer, ok := range map[string]bool{
		`201 {"permit":"p","ttlMS":10}`: true, `200 {"permit":"p"}`: false, `202 {"permit":"p"}`: false, `204 {"permit":"p"}`: false,
		"201 {}": false, "201 null": false, `201 {"permit":""}`: false, `201 {"permit":null}`: false, `201 {"permit":7}`: false, "201 []": false,
		"201 ": false, "201 <html>": false, "503 {}": false, "302 {}": false,
	} {
		closed := 0
		c := permits.New("http://gate", permits.Options{HTTP: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			status, _ := strconv.Atoi(answer[:3])
			return &http.Response{StatusCode: status, Body: closing{strings.NewReader(answer[4:]), &closed}}, nil
		})}})
		p, err := c.Admit(t.Context(), permits.Ask{Ingress: "jobs"})
		if (err == nil) != ok || (p != nil) != ok {
			t.Errorf("%s: %v, %v; want a permit: %v", answer, p, err, ok)
		}
		if closed != 1 {
			t.Errorf("%s: the body was closed %d times; want once", answer, closed)
		}
	}
}

// roundTrip is a func as an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The Python client does the same.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	url, gate := serve(t)
	tried(t, gate, exec.CommandContext(t.Context(), python, "-B", "../../examples/decide/try.py", url))
}

// The TypeScript client does the same, once esbuild has taken its types off.
func TestTypeScript(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	script := filepath.Join(t.TempDir(), "try.mjs")
	build := exec.CommandContext(t.Context(), "go", "tool", "-modfile=../../tools/go.mod", "esbuild",
		"../../examples/decide/try.ts", "--bundle", "--platform=node", "--format=esm", "--outfile="+script, "--log-level=warning")
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("esbuild cannot be had: %v %s", err, out)
	}
	url, gate := serve(t)
	tried(t, gate, exec.CommandContext(t.Context(), node, script, url))
}

// tried runs a program that tries a client, and looks at what the gate saw.
func tried(t *testing.T, gate *limiter.Gate, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Fatalf("%v: %s", err, out)
	}
	st := gate.Status()
	if st.InFlight != 0 || st.Labels[0].Counts.Dropped != 1 {
		t.Errorf("in flight %d, dropped %d; want 0, and the work that failed", st.InFlight, st.Labels[0].Counts.Dropped)
	}
}
