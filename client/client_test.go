package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/labels"
)

// record returns hooks that write down every event in one line.
func record(lines *[]string) client.Hooks {
	note := func(what string) func(context.Context, client.Event) {
		return func(_ context.Context, e client.Event) {
			line := fmt.Sprintf("%s op %d attempt %d", what, e.OperationID, e.Attempt)
			if what == "failed" {
				line += fmt.Sprintf(" %s %s wait %v: %v", e.Server, e.Decision.Why, e.Decision.Wait, e.Err)
			}
			*lines = append(*lines, line)
		}
	}
	return client.Hooks{Started: note("started"), Succeeded: note("succeeded"), Failed: note("failed")}
}

// Command monitoring: each attempt is started and then either succeeded or
// failed, exactly once, all under one operation id; the next operation has its own.
func TestHooksStartedThenExactlyOneEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		c := newClient(t, client.Options{Policy: fixed(client.Driver(), 1), Hooks: record(&got)})
		if err := c.Do(t.Context(), failing(refused()).op(client.Read)); err != nil {
			t.Fatal(err)
		}
		_ = c.Do(t.Context(), failing(errBoom).op(client.Read))
		want := []string{
			"started op 1 attempt 0", "failed op 1 attempt 0 a:1 retry wait 200ms: boom",
			"started op 1 attempt 1", "succeeded op 1 attempt 1",
			"started op 2 attempt 0", "failed op 2 attempt 0  not_retryable wait 0s: boom",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// An attempt that panics has failed; the panic goes on to the caller.
func TestHooksPanicIsFailure(t *testing.T) {
	var got []string
	c := newClient(t, client.Options{Hooks: record(&got)})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = c.Do(t.Context(), client.Operation{Run: func(context.Context, *client.Attempt) error { panic("x") }})
	}()
	want := []string{"started op 1 attempt 0", "failed op 1 attempt 0  aborted wait 0s: client: attempt did not return"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// The time an attempt took, and what is known of the failure, are in the event.
func TestHooksEventFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed client.Event
		c := newClient(t, client.Options{Hooks: client.Hooks{
			Failed: func(_ context.Context, e client.Event) { failed = e },
		}})
		_ = c.Do(t.Context(), client.Operation{
			Name: "find", Kind: client.Exempt,
			Run: func(_ context.Context, a *client.Attempt) error {
				a.Server = "b:2"
				<-time.After(30 * ms)
				return refused()
			},
		})
		want := client.Event{
			OperationID: 1, Operation: "find", Kind: client.Exempt, Server: "b:2", Elapsed: 30 * ms,
			Err: errBoom, Overload: true, Reason: "request_rate", Decision: client.Decision{Why: client.WhyExempt},
		}
		byIdentity := cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) || errors.Is(b, a) })
		if diff := cmp.Diff(want, failed, byIdentity); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	})
}

// The budget hook sees every balance an attempt left behind, and no other.
func TestHooksBudgetIsMetric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []float64
		p := adaptive(client.Seed())
		p.BudgetCapacity = 2
		c := newClient(t, client.Options{Policy: &p, Hooks: client.Hooks{
			Budget: func(tokens float64) { got = append(got, tokens) },
		}})
		for _, s := range []*script{failing(), failing(refused()), failing(refused(), refused(), refused())} {
			_ = c.Do(t.Context(), s.op(client.Read))
		}
		// Full: no change. A retry and its success. Two retries, then no token.
		if diff := cmp.Diff([]float64{1, 2, 1, 0}, got); diff != "" {
			t.Errorf("balances (-want +got):\n%s", diff)
		}
		want := client.Stats{Operations: 3, Retries: 3, GaveUp: 1, Budget: client.BudgetStats{Capacity: 2, Spent: 3, Denied: 1}}
		if diff := cmp.Diff(want, c.Stats()); diff != "" {
			t.Errorf("Stats (-want +got):\n%s", diff)
		}
	})
}

// Slow down, additional rule 3: every retry is one log line at warn or lower, with
// reason, attempt, wait and server.
func TestSlowDownRule3EveryRetryIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		drop := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		c := newClient(t, client.Options{
			Policy: fixed(client.Driver(), 1), LogLevel: slog.LevelWarn,
			Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: drop})),
		})
		_ = c.Do(t.Context(), failing(repeat(refused(), 9)...).op(client.Write))
		want := `level=WARN msg="retrying operation" operation=op operation_id=1 kind=write reason=request_rate attempt=1 wait=200ms server=a:1 error=boom
level=WARN msg="retrying operation" operation=op operation_id=1 kind=write reason=request_rate attempt=2 wait=400ms server=a:1 error=boom
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

// A retry is never logged as an error.
func TestLogLevelIsAtMostWarn(t *testing.T) {
	if _, err := client.New(client.Options{LogLevel: slog.LevelError}); err == nil {
		t.Error("New accepted slog.LevelError")
	}
}

// Slow down, additional rule 2: the caller of an operation that came through
// sees nothing of its retries.
func TestSlowDownRule2RetriesAreTransparent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := client.SlowDown(client.SlowDownOptions{})
		c := newClient(t, client.Options{Policy: &p})
		if err := c.Do(t.Context(), failing(repeat(refused(), 6)...).op(client.Read)); err != nil {
			t.Errorf("Do = %v; want nil", err)
		}
	})
}

// Slow down, additional rule 4: no extra round trips; what succeeds is sent once.
func TestSlowDownRule4NoExtraRoundTrips(t *testing.T) {
	c := newClient(t, client.Options{})
	s := failing()
	if err := c.Do(t.Context(), s.op(client.Write)); err != nil || len(s.at) != 1 {
		t.Errorf("%d attempts, %v; want 1 and nil", len(s.at), err)
	}
}

// A caller that gives up during a wait is answered at once, with both errors,
// and the token of the retry that was not made goes back.
func TestDoCanceledDuringWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := adaptive(client.Seed())
		c := newClient(t, client.Options{Policy: fixed(p, 1)})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(30*ms, cancel)
		start := time.Now()
		err := c.Do(ctx, failing(refused()).op(client.Read))
		if got := time.Since(start); got != 30*ms {
			t.Errorf("Do was back after %v; want exactly 30ms", got)
		}
		if !errors.Is(err, context.Canceled) || !errors.Is(err, errBoom) {
			t.Errorf("Do = %v; want both %v and %v", err, context.Canceled, errBoom)
		}
		if got := c.Budget().Tokens(); got != 1000 {
			t.Errorf("balance is %v; want 1000: no retry was made", got)
		}
	})
}

// A caller that gives up during an attempt gets no retry, whatever the failure.
func TestDoCanceledDuringAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why client.Why
		c := newClient(t, client.Options{Policy: fixed(adaptive(client.Seed()), 1), Hooks: client.Hooks{
			Failed: func(_ context.Context, e client.Event) { why = e.Decision.Why },
		}})
		ctx, cancel := context.WithCancel(t.Context())
		attempts := 0
		err := c.Do(ctx, client.Operation{Kind: client.Read, Run: func(context.Context, *client.Attempt) error {
			attempts++
			cancel()
			return refused()
		}})
		if attempts != 1 || !errors.Is(err, errBoom) || !errors.Is(err, context.Canceled) {
			t.Errorf("%d attempts, %v; want 1, and both %v and %v", attempts, err, errBoom, context.Canceled)
		}
		if why != client.WhyCanceled || c.Budget().Tokens() != 1000 {
			t.Errorf("event says %s, balance is %v; want %s and 1000", why, c.Budget().Tokens(), client.WhyCanceled)
		}
	})
}

// A context that has ended starts nothing.
func TestDoEndedContext(t *testing.T) {
	c := newClient(t, client.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := failing()
	if err := c.Do(ctx, s.op(client.Read)); !errors.Is(err, context.Canceled) || len(s.at) != 0 {
		t.Errorf("%d attempts, %v; want none, %v", len(s.at), err, context.Canceled)
	}
}

// Progress lets the rest of an operation count its retries anew.
func TestProgressCountsRetriesAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, client.Options{Policy: fixed(client.Driver(), 1)})
		var at []time.Duration
		start := time.Now()
		err := c.Do(t.Context(), client.Operation{Kind: client.Write, Run: func(_ context.Context, a *client.Attempt) error {
			at = append(at, time.Since(start))
			if a.Number() == 2 {
				a.Progress()
			}
			return refused()
		}})
		want := []time.Duration{0, 200 * ms, 600 * ms, 800 * ms, 1200 * ms}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("attempts began at (-want +got):\n%s", diff)
		}
		var gaveUp *client.Error
		if !errors.As(err, &gaveUp) || gaveUp.Attempts != 5 {
			t.Errorf("Do = %v; want to give up after 5 attempts", err)
		}
	})
}

// labeled is shaped like the errors of the MongoDB Go driver.
type labeled []string

func (l labeled) Error() string { return strings.Join(l, "+") }

func (l labeled) HasErrorLabel(label string) bool {
	return slices.Contains(l, label)
}

// What an error says of itself is found however deep it is wrapped.
func TestFailureOf(t *testing.T) {
	type facts struct{ Overload, Retryable, NoWrites bool }
	for name, tc := range map[string]struct {
		err  error
		want facts
	}{
		"failure":          {refused(), facts{true, true, false}},
		"wrapped failure":  {fmt.Errorf("x: %w", refused()), facts{true, true, false}},
		"labeled":          {labeled{"SystemOverloadedError", "RetryableError"}, facts{true, true, false}},
		"wrapped labeled":  {fmt.Errorf("x: %w", labeled{"SystemOverloadedError"}), facts{true, false, false}},
		"no writes":        {labeled{"NoWritesPerformed"}, facts{false, false, true}},
		"plain":            {errBoom, facts{}},
		"joined with more": {errors.Join(errBoom, refused()), facts{true, true, false}},
	} {
		f := client.FailureOf(tc.err)
		if diff := cmp.Diff(tc.want, facts{f.Overload, f.Retryable, f.NoWrites}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A rejection document becomes a failure with the same facts, for every reason.
func TestFromDocument(t *testing.T) {
	for _, reason := range labels.Reasons() {
		doc := labels.New(reason, "orders", "checkout")
		doc.RetryAfterMS, doc.BaseBackoffMS = 137, 50
		f := client.FromDocument(&doc, nil)
		if !f.Overload || f.Retryable != reason.Retryable() || f.Reason != string(reason) ||
			f.RetryAfter != 137*ms || f.BaseBackoff != 50*ms || !strings.Contains(f.Error(), reason.Message()) {
			t.Errorf("%s: %+v", reason, *f)
		}
	}
	doc := labels.New(labels.RequestRate, "", "")
	doc.RetryAfterMS = -5
	if f := client.FromDocument(&doc, errBoom); f.RetryAfter != 0 || !errors.Is(f, errBoom) {
		t.Errorf("%+v; want no hint and the given cause", *f)
	}
	doc.RetryAfterMS = 1 << 62
	if f := client.FromDocument(&doc, nil); f.RetryAfter < 290*365*24*time.Hour {
		t.Errorf("a huge hint became %v", f.RetryAfter)
	}
}

// Classify is asked first and may know errors nobody else does.
func TestClassify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, client.Options{Classify: func(err error) *client.Failure {
			if errors.Is(err, errBoom) {
				return &client.Failure{Err: err, Overload: true, Retryable: true}
			}
			return nil
		}})
		s := failing(errBoom, errBoom)
		if err := c.Do(t.Context(), s.op(client.Read)); err != nil || len(s.at) != 3 {
			t.Errorf("%d attempts, %v; want 3 and nil", len(s.at), err)
		}
		s = failing(errors.New("other"))
		if err := c.Do(t.Context(), s.op(client.Read)); err == nil || len(s.at) != 1 {
			t.Errorf("unknown error: %d attempts, %v; want 1 and the error", len(s.at), err)
		}
	})
}

// One client serves many operations at once: ids are unique, and in a long
// overload attempts stay near one per operation once the budget has drained.
func TestConcurrentOperationsShareTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := adaptive(client.Seed())
		p.BudgetCapacity = 10
		var mu sync.Mutex
		ids := map[uint64]int{}
		c := newClient(t, client.Options{Policy: &p, Hooks: client.Hooks{
			Started: func(_ context.Context, e client.Event) {
				mu.Lock()
				defer mu.Unlock()
				ids[e.OperationID]++
			},
		}})
		var group sync.WaitGroup
		for range 200 {
			group.Go(func() { _ = c.Do(t.Context(), failing(repeat(refused(), 99)...).op(client.Read)) })
		}
		group.Wait()
		if s := c.Stats(); len(ids) != 200 || s.Retries != 10 || s.Budget.Tokens != 0 {
			t.Errorf("%d ids, %d retries, %v tokens; want 200, 10, 0", len(ids), s.Retries, s.Budget.Tokens)
		}
	})
}

// An error tells the operation, the attempts and why they ended.
func TestErrorText(t *testing.T) {
	e := &client.Error{Operation: "find", Attempts: 3, Why: client.WhyBudget, Err: errBoom}
	if got, want := e.Error(), "client: find: gave up after 3 attempts (budget): boom"; got != want {
		t.Errorf("Error = %q; want %q", got, want)
	}
	e = &client.Error{Attempts: 1, Err: errBoom, Canceled: context.DeadlineExceeded}
	if got, want := e.Error(), "client: operation: context deadline exceeded before a retry, after 1 attempt: boom"; got != want {
		t.Errorf("Error = %q; want %q", got, want)
	}
	if !e.Timeout() || (&client.Error{Err: errBoom}).Timeout() {
		t.Error("Timeout does not follow the causes")
	}
}
