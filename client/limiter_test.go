package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/client/permits"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// labelled is an error with labels and no more, as those of the MongoDB driver are.
type labelled []string

func (labelled) Error() string { return "command failed" }

func (l labelled) HasErrorLabel(label string) bool {
	for _, have := range l {
		if have == label {
			return true
		}
	}
	return false
}

// spentGate returns a gate that has a token again after half a second.
func spentGate(t *testing.T) *limiter.Gate {
	t.Helper()
	g := limiter.New("jobs", &limiter.Policy{Rate: limiter.Rate{PerSecond: 2, BurstSeconds: 0.5}}, limiter.Options{})
	p, err := g.TryAdmit(g.Now(), limiter.Request{})
	if err != nil {
		t.Fatal(err)
	}
	p.End(limiter.Success)
	return g
}

// gateHandler serves requests that the gate admits, and answers others as an embedder
// of the limiter would.
func gateHandler(g *limiter.Gate) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := g.Admit(r.Context(), limiter.Request{MaxWait: limiter.NoWait})
		if rej, ok := errors.AsType[*limiter.Rejection](err); ok {
			d := rej.Document(limiter.Request{}, true)
			d.SetHeaders(w.Header(), labels.HTTPForm{})
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(d.Status)
			_, _ = w.Write(d.AppendJSON(nil))
			return
		}
		p.End(limiter.Success)
	})
}

// inMemory is a RoundTripper that calls a handler.
type inMemory struct{ http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// A refusal of the limiter, in the same process, over HTTP, from the decision API or
// as a driver's error, is retried: the client did not know the first and the third.
// Those that tell a wait are waited for.
func TestClientRetriesTheLimiter(t *testing.T) {
	gate := func(g *limiter.Gate) error {
		p, err := g.Admit(t.Context(), limiter.Request{MaxWait: limiter.NoWait})
		p.End(limiter.Success)
		return err
	}
	for name, tc := range map[string]struct {
		try  func(c *client.Client, g *limiter.Gate) func(context.Context, *client.Attempt) error
		hint bool
	}{
		"limiter": {func(_ *client.Client, g *limiter.Gate) func(context.Context, *client.Attempt) error {
			return func(context.Context, *client.Attempt) error { return gate(g) }
		}, true},
		"limiter, wrapped": {func(_ *client.Client, g *limiter.Gate) func(context.Context, *client.Attempt) error {
			return func(context.Context, *client.Attempt) error {
				if err := gate(g); err != nil {
					return fmt.Errorf("orders: %w", err)
				}
				return nil
			}
		}, true},
		"decision API": {func(_ *client.Client, g *limiter.Gate) func(context.Context, *client.Attempt) error {
			return func(context.Context, *client.Attempt) error {
				if rej, ok := errors.AsType[*limiter.Rejection](gate(g)); ok {
					return &permits.Refused{Document: rej.Document(limiter.Request{}, true)}
				}
				return nil
			}
		}, true},
		"driver": {func(_ *client.Client, g *limiter.Gate) func(context.Context, *client.Attempt) error {
			return func(context.Context, *client.Attempt) error {
				if gate(g) != nil {
					return labelled{labels.SystemOverloaded, labels.Retryable}
				}
				return nil
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waits []time.Duration
				hooks := client.Hooks{Failed: func(_ context.Context, e client.Event) { waits = append(waits, e.Decision.Wait) }}
				c := newClient(t, client.Options{Policy: fixed(client.Driver(), 1), Hooks: hooks})
				g := spentGate(t)
				attempts := 0
				run := tc.try(c, g)
				err := c.Do(t.Context(), client.Operation{Kind: client.Write, Run: func(ctx context.Context, a *client.Attempt) error {
					attempts++
					return run(ctx, a)
				}})
				if err != nil || attempts < 2 {
					t.Errorf("Do = %v after %d attempts; want retried until there was a token", err, attempts)
				}
				if len(waits) == 0 || (waits[0] >= 500*ms) != tc.hint {
					t.Errorf("waits %v; want the refusal's own: %v", waits, tc.hint)
				}
				if n := g.Status().InFlight; n != 0 {
					t.Errorf("%d in flight at the end", n)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		g := spentGate(t)
		resp, err := newClient(t, client.Options{Policy: fixed(client.Driver(), 1)}).Transport(inMemory{gateHandler(g)}).RoundTrip(request(t, http.MethodPost, "payload"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("over HTTP: status %d; want 200 after a retry", resp.StatusCode)
		}
	})
}

// What can never succeed is not retried, and who gives up finds the refusal.
func TestClientKeepsTheRejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New("jobs", &limiter.Policy{Rate: limiter.Rate{PerSecond: 10}}, limiter.Options{})
		attempts := 0
		err := newClient(t, client.Options{}).Do(t.Context(), client.Operation{Run: func(ctx context.Context, _ *client.Attempt) error {
			attempts++
			_, err := g.Admit(ctx, limiter.Request{Cost: 11})
			return err
		}})
		if rej, ok := errors.AsType[*limiter.Rejection](err); attempts != 1 || !ok || rej.Reason != labels.CostExceedsBurst {
			t.Errorf("Do = %v after %d attempts; want cost_exceeds_burst after one", err, attempts)
		}
	})
}

// An error that is a nil pointer is a failure nothing is known about. The client
// panicked.
func TestNilPointersAreErrors(t *testing.T) {
	for name, err := range map[string]error{
		"failure": (*client.Failure)(nil), "joined": errors.Join(errBoom, (*client.Failure)(nil)),
		"wrapped": fmt.Errorf("x: %w", (*client.Failure)(nil)), "rejection": (*limiter.Rejection)(nil), "refused": (*permits.Refused)(nil),
	} {
		f := client.FailureOf(err)
		if f == nil || f.Overload || f.Retryable || f.NoWrites || f.RetryAfter != 0 || f.Err == nil {
			t.Errorf("%s: FailureOf = %+v; want nothing known", name, f)
		}
	}
	attempts := 0
	err := newClient(t, client.Options{}).Do(t.Context(), client.Operation{Run: func(context.Context, *client.Attempt) error {
		attempts++
		return (*client.Failure)(nil)
	}})
	if err == nil || attempts != 1 || err.Error() == "" {
		t.Errorf("Do = %v after %d attempts; want an error after one", err, attempts)
	}
}

// base is a RoundTripper that answers always the same.
type base struct{ resp *http.Response }

func (b base) RoundTrip(*http.Request) (*http.Response, error) {
	if b.resp == nil {
		return nil, nil
	}
	resp := *b.resp
	return &resp, nil
}

// A base that breaks the rules of RoundTrippers gives an error or an answer with a
// body, as net/http makes of it. The transport panicked, also where nobody could recover.
func TestTransportOfABaseWithoutBodies(t *testing.T) {
	for name, tc := range map[string]struct {
		resp   *http.Response
		method string
		status int // 0 = an error
	}{
		"neither":          {nil, http.MethodGet, 0},
		"200 without body": {&http.Response{StatusCode: 200}, http.MethodGet, 200},
		"503 without body": {&http.Response{StatusCode: 503}, http.MethodGet, 503},
		"429 without body": {&http.Response{StatusCode: 429}, http.MethodPost, 429},
		"429, with length": {&http.Response{StatusCode: 429, ContentLength: 7}, http.MethodPost, 0},
		"200, with length": {&http.Response{StatusCode: 200, ContentLength: 7}, http.MethodGet, 0},
		"HEAD with length": {&http.Response{StatusCode: 200, ContentLength: 7}, http.MethodHead, 200},
	} {
		synctest.Test(t, func(t *testing.T) {
			resp, err := newClient(t, client.Options{}).Transport(base{tc.resp}).RoundTrip(request(t, tc.method, ""))
			if tc.status == 0 {
				if err == nil || resp != nil {
					t.Errorf("%s: %v, %v; want an error", name, resp, err)
				}
				return
			}
			if err != nil || resp.StatusCode != tc.status || resp.Body == nil {
				t.Fatalf("%s: %+v, %v; want %d with a body", name, resp, err, tc.status)
			}
			resp.Body.Close()
		})
	}
}
