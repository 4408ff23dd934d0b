package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/labels"
)

// Any operation: say what it is, and return what is known of its failure.
func ExampleClient_Do() {
	c, err := client.New(client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = c.Do(context.Background(), client.Operation{
		Name: "orders.find", Kind: client.Read,
		Run: func(_ context.Context, a *client.Attempt) error {
			fmt.Println("attempt", a.Number())
			if a.Number() == 0 {
				return &client.Failure{
					Err: errors.New("busy"), Overload: true, Retryable: true,
					BaseBackoff: time.Millisecond, // the server's hint
				}
			}
			return nil
		},
	})
	fmt.Println("error:", err)
	// Output:
	// attempt 0
	// attempt 1
	// error: <nil>
}

// An http.Client that obeys the gate. The server refuses the first request with
// the gate's document, and gets the body again with the second.
func ExampleClient_Transport() {
	requests := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("server got %q, backpressure %s\n", body, r.Header.Get(labels.HeaderBackpressure))
		if requests == 1 {
			doc := labels.New(labels.ConcurrencyLimit, "orders", "checkout")
			doc.RetryAfterMS, doc.BaseBackoffMS = 2, 1
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(doc.Status)
			_, _ = w.Write(doc.AppendJSON(nil))
			return
		}
		_, _ = io.WriteString(w, "order 7")
	}))
	defer srv.Close()

	c, err := client.New(client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	hc := &http.Client{Transport: c.Transport(nil), Timeout: 5 * time.Second}
	resp, err := hc.Post(srv.URL, "text/plain", strings.NewReader("two apples"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body))
	// Output:
	// server got "two apples", backpressure 1
	// server got "two apples", backpressure 1
	// 200 order 7
}

// An upload of three dependent commands, begin, part and commit, in one batch.
// The server refuses it at part, after begin was executed and produced an id.
// The batch goes on at part, with the id carried into what is left.
func ExampleRunBatch() {
	type command struct {
		Verb   string
		Stream string // produced by begin, needed by the others
	}
	type result struct{ Stream string }

	refusals := 1
	send := func(_ context.Context, _ *client.Attempt, items []command) ([]result, error) {
		var done []result
		stream := ""
		for _, it := range items {
			if it.Verb == "part" && refusals > 0 {
				refusals--
				fmt.Println("server: part refused")
				return done, &client.Failure{
					Err: errors.New("rate exceeded"), Overload: true, Retryable: true, BaseBackoff: time.Millisecond,
				}
			}
			switch {
			case it.Verb == "begin":
				stream = "stream-1"
			case it.Stream != "":
				stream = it.Stream
			}
			fmt.Println("server:", it.Verb, stream)
			done = append(done, result{Stream: stream})
		}
		return done, nil
	}

	c, err := client.New(client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	results, err := client.RunBatch(context.Background(), c, &client.Batch[command, result]{
		Name: "upload", Kind: client.Write, Send: send,
		Items: []command{{Verb: "begin"}, {Verb: "part"}, {Verb: "commit"}},
		Carry: func(it command, done []result) command {
			it.Stream = done[0].Stream
			return it
		},
	})
	fmt.Println(len(results), "results, error:", err)
	// Output:
	// server: begin stream-1
	// server: part refused
	// server: part stream-1
	// server: commit stream-1
	// 3 results, error: <nil>
}

// A simulation drives the very decisions of Do in time of its own: a policy is
// plain data, and never waits.
func ExamplePolicy_Next() {
	policy := client.Seed()
	policy.AdaptiveRetries = true
	policy.Rand = func() float64 { return 0.5 } // a seeded source, for a simulation
	budget := policy.NewBudget()

	state := client.State{Kind: client.Read}
	now, deadline := time.Duration(0), time.Second
	for {
		refusal := client.Failure{Overload: true, Retryable: true}
		d := policy.Next(&state, &refusal, deadline-now, budget)
		if !d.Retry {
			fmt.Printf("t=%v stop: %s, %v tokens left\n", now, d.Why, budget.Tokens())
			return
		}
		fmt.Printf("t=%v retry in %v\n", now, d.Wait)
		now += d.Wait
	}
	// Output:
	// t=0s retry in 50ms
	// t=50ms retry in 100ms
	// t=150ms retry in 200ms
	// t=350ms retry in 400ms
	// t=750ms stop: deadline, 996 tokens left
}

// The third backoff, with all that can be set, and a log line for each retry.
func ExampleSlowDown() {
	policy := client.SlowDown(client.SlowDownOptions{
		Initial: 2 * time.Millisecond, Retries: 3, Multiplier: 2, Jitter: time.Millisecond, Max: 4 * time.Millisecond,
	})
	policy.Rand = func() float64 { return 0.5 }
	untimed := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	c, err := client.New(client.Options{
		Policy: &policy,
		Log:    slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: untimed})),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = c.Do(context.Background(), client.Operation{
		Name: "list", Kind: client.Read,
		Run: func(_ context.Context, a *client.Attempt) error {
			a.Server = "satellite:7777"
			return &client.Failure{Err: errors.New("too many requests"), Overload: true, Retryable: true, Reason: "request_rate"}
		},
	})
	fmt.Println(err)
	// Output:
	// level=INFO msg="retrying operation" operation=list operation_id=1 kind=read reason=request_rate attempt=1 wait=2.5ms server=satellite:7777 error="too many requests"
	// level=INFO msg="retrying operation" operation=list operation_id=1 kind=read reason=request_rate attempt=2 wait=4.5ms server=satellite:7777 error="too many requests"
	// level=INFO msg="retrying operation" operation=list operation_id=1 kind=read reason=request_rate attempt=3 wait=4.5ms server=satellite:7777 error="too many requests"
	// client: list: gave up after 4 attempts (max_retries): too many requests
}

// The retry budget as a metric, and each attempt under its operation's id.
func ExampleHooks() {
	policy := client.Driver()
	policy.AdaptiveRetries = true
	policy.Rand = func() float64 { return 0 }
	c, err := client.New(client.Options{Policy: &policy, Hooks: client.Hooks{
		Started:   func(_ context.Context, e client.Event) { fmt.Println("started", e.OperationID, e.Attempt) },
		Succeeded: func(_ context.Context, e client.Event) { fmt.Println("succeeded", e.OperationID, e.Attempt) },
		Failed: func(_ context.Context, e client.Event) {
			fmt.Println("failed", e.OperationID, e.Attempt, e.Decision.Why)
		},
		Budget: func(tokens float64) { fmt.Println("budget", tokens) },
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = c.Do(context.Background(), client.Operation{Kind: client.Write, Run: func(_ context.Context, a *client.Attempt) error {
		if a.Number() == 0 {
			return &client.Failure{Overload: true, Retryable: true}
		}
		return nil
	}})
	// Output:
	// started 1 0
	// failed 1 0 retry
	// budget 999
	// started 1 1
	// succeeded 1 1
	// budget 1000
}

// The budget alone, for a client that has its own loop.
func ExampleBudget() {
	b := client.NewBudget(2)
	fmt.Println(b.Consume(1), b.Consume(1), b.Consume(1))
	for range 10 {
		b.Deposit(0.1) // ten successes earn one retry
	}
	fmt.Println(b.Tokens(), b.Consume(1))
	// Output:
	// true true false
	// 1 true
}

// An error of another library joins in with a classifier; a rejection that an
// in-process gate returned, with its document.
func ExampleFromDocument() {
	doc := labels.New(labels.CostExceedsBurst, "orders", "checkout")
	f := client.FromDocument(&doc, nil)
	fmt.Println(f.Overload, f.Retryable, f.Reason)
	// Output:
	// true false cost_exceeds_burst
}

// What an answer allows, for clients that do not use the transport.
func ExampleResponseFailure() {
	post, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://elsewhere/", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, status := range []int{200, 429, 503} {
		f := client.ResponseFailure(&http.Response{
			StatusCode: status, Request: post, Body: http.NoBody, Header: http.Header{"Retry-After": {"2"}},
		})
		if f == nil {
			fmt.Println(status, "is no failure")
			continue
		}
		fmt.Println(status, "overload:", f.Overload, "safe to retry:", f.Retryable || f.Transient, "wait:", f.RetryAfter)
	}
	// Output:
	// 200 is no failure
	// 429 overload: true safe to retry: true wait: 2s
	// 503 overload: true safe to retry: false wait: 2s
}
