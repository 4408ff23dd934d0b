package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/client"
)

// The tests of this file are the numbered rules of the client backpressure
// specification, one by one. docs/client.md points to them by name.

// Overload rule 1: the attempt number starts at 0 and counts retries of every
// cause, so an overload after another retry waits as for the second retry.
func TestOverloadRule1AttemptCountsEveryRetry(t *testing.T) {
	p := fixed(client.Seed(), 1)
	s := client.State{Kind: client.Read}
	if s.Attempt() != 0 {
		t.Errorf("first attempt is number %d; want 0", s.Attempt())
	}
	if d := p.Next(&s, transient(), never, nil); !d.Retry || d.Wait != 0 {
		t.Fatalf("after a transient failure: %+v; want a retry at once", d)
	}
	if d := p.Next(&s, refused(), never, nil); !d.Retry || d.Wait != 200*ms {
		t.Errorf("then an overload: %+v; want a retry after 200ms, as retry 2", d)
	}
	if s.Attempt() != 2 {
		t.Errorf("attempt number is %d; want 2", s.Attempt())
	}
}

// Overload rule 2.1: both labels are needed; one alone retries nothing.
func TestOverloadRule2_1OnlyRetryableOverloadErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		f    client.Failure
		want client.Why
	}{
		"both labels":    {client.Failure{Overload: true, Retryable: true}, client.WhyRetry},
		"overload only":  {client.Failure{Overload: true}, client.WhyNotRetryable},
		"retryable only": {client.Failure{Retryable: true}, client.WhyNotRetryable},
		"no label":       {client.Failure{}, client.WhyNotRetryable},
	} {
		for _, k := range []client.Kind{client.Generic, client.Read, client.Write} {
			p, s := client.Seed(), client.State{Kind: k}
			if d := p.Next(&s, &tc.f, never, nil); d.Why != tc.want || d.Retry != (tc.want == client.WhyRetry) {
				t.Errorf("%s, %v: %+v; want %s", name, k, d, tc.want)
			}
		}
	}
}

// Overload rule 2.2: at most MAX_RETRIES, which is 5 in the seed and 2 in
// drivers; the last error is for the caller.
func TestOverloadRule2_2MaxRetries(t *testing.T) {
	for name, tc := range map[string]struct {
		policy client.Policy
		want   int
	}{"seed": {client.Seed(), 5}, "driver": {client.Driver(), 2}} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, client.Options{Policy: &tc.policy})
			s := failing(repeat(refused(), 100)...)
			err := c.Do(t.Context(), s.op(client.Write))
			if len(s.at) != tc.want+1 {
				t.Errorf("%s: %d attempts; want %d", name, len(s.at), tc.want+1)
			}
			var gaveUp *client.Error
			if !errors.As(err, &gaveUp) || gaveUp.Why != client.WhyMaxRetries || gaveUp.Attempts != tc.want+1 {
				t.Errorf("%s: error is %v; want one that gave up for %s", name, err, client.WhyMaxRetries)
			}
			if !errors.Is(err, errBoom) {
				t.Errorf("%s: %v does not match its cause", name, err)
			}
		})
	}
}

// Overload rule 2.2: more retries than that are never made for having time.
func TestOverloadRule2_2HoldsWithDeadline(t *testing.T) {
	p := fixed(client.Seed(), 0)
	if got, why := waits(p, client.Read, nil, time.Hour, times(refused(), 100)...); len(got) != 5 || why != client.WhyMaxRetries {
		t.Errorf("%d retries, %s; want 5, %s", len(got), why, client.WhyMaxRetries)
	}
}

// Overload rule 2.3: no retry when the backoff does not leave time for one, and
// the caller learns it at once instead of at the deadline.
func TestOverloadRule2_3BailsOutBeforeDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, client.Options{Policy: fixed(client.Seed(), 1)})
		ctx, cancel := context.WithTimeout(t.Context(), 500*ms)
		defer cancel()
		start := time.Now()
		s := failing(repeat(refused(), 100)...)
		err := c.Do(ctx, s.op(client.Read))
		// Waits are 100 and 200 ms; a third of 400 ms would end at 700 ms.
		if diff := cmp.Diff([]time.Duration{0, 100 * ms, 300 * ms}, s.at); diff != "" {
			t.Errorf("attempts began at (-want +got):\n%s", diff)
		}
		if got := time.Since(start); got != 300*ms {
			t.Errorf("gave up after %v; want exactly 300ms", got)
		}
		var gaveUp *client.Error
		if !errors.As(err, &gaveUp) || gaveUp.Why != client.WhyDeadline || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v; want the refusal, given up for %s", err, client.WhyDeadline)
		}
	})
}

// Overload rule 2.4: a read needs RetryReads, a write RetryWrites, a generic
// command both.
func TestOverloadRule2_4Switches(t *testing.T) {
	for _, reads := range []bool{false, true} {
		for _, writes := range []bool{false, true} {
			p := client.Seed()
			p.RetryReads, p.RetryWrites = reads, writes
			for k, want := range map[client.Kind]bool{
				client.Read: reads, client.Write: writes, client.Generic: reads && writes,
			} {
				s := client.State{Kind: k}
				d := p.Next(&s, refused(), never, nil)
				if d.Retry != want || !want && d.Why != client.WhySwitchedOff {
					t.Errorf("RetryReads %v, RetryWrites %v, %v: %+v; want retry %v", reads, writes, k, d, want)
				}
			}
		}
	}
}

// Overload rule 3: jitter * min(10 s, 100 ms * 2^(attempt-1)), to the exact
// duration.
func TestOverloadRule3Backoff(t *testing.T) {
	for jitter, want := range map[float64][]time.Duration{
		1:    {100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms},
		0.25: {25 * ms, 50 * ms, 100 * ms, 200 * ms, 400 * ms},
		0:    {0, 0, 0, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, client.Options{Policy: fixed(client.Seed(), jitter)})
			s := failing(repeat(refused(), 5)...)
			if err := c.Do(t.Context(), s.op(client.Generic)); err != nil {
				t.Fatalf("Do: %v; want success on attempt 5", err)
			}
			begin, total := []time.Duration{0}, time.Duration(0)
			for _, w := range want {
				total += w
				begin = append(begin, total)
			}
			if diff := cmp.Diff(begin, s.at); diff != "" {
				t.Errorf("jitter %v: attempts began at (-want +got):\n%s", jitter, diff)
			}
		})
	}
}

// Overload rule 3: the wait is bounded by MAX_BACKOFF of 10 s.
func TestOverloadRule3BackoffCap(t *testing.T) {
	e := client.Seed().Backoff
	for n, want := range map[int]time.Duration{7: 6400 * ms, 8: 10 * time.Second, 1000: 10 * time.Second} {
		if got := e.Delay(n, 0, 1); got != want {
			t.Errorf("Delay(%d) = %v; want %v", n, got, want)
		}
	}
}

// Overload rule 4: the server that failed is deprioritized for the retry; for
// drivers that is opt-in outside sharded topologies.
func TestOverloadRule4Deprioritizes(t *testing.T) {
	for name, tc := range map[string]struct {
		policy           client.Policy
		replica, sharded []string
	}{
		"seed":   {client.Seed(), []string{"a", "b"}, []string{"a", "b"}},
		"driver": {client.Driver(), nil, []string{"a", "b"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, client.Options{Policy: &tc.policy})
			servers := []string{"a", "b", "c"}
			err := c.Do(t.Context(), client.Operation{Kind: client.Read, Run: func(_ context.Context, a *client.Attempt) error {
				n := a.Number()
				a.Server = servers[n]
				if n < 2 {
					return &client.Failure{Overload: true, Retryable: true}
				}
				if diff := cmp.Diff(tc.replica, a.Deprioritized(false)); diff != "" {
					t.Errorf("%s, not sharded (-want +got):\n%s", name, diff)
				}
				if diff := cmp.Diff(tc.sharded, a.Deprioritized(true)); diff != "" {
					t.Errorf("%s, sharded (-want +got):\n%s", name, diff)
				}
				return nil
			}})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// Overload rules 5.1 and 5.2: whoever must change a command for its retry, in a
// transaction or as a retryable write, is told that it is one, and finds the
// same operation id, by which a server can know the write again.
func TestOverloadRule5RetriedWriteKeepsItsIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, client.Options{})
		var sent []string
		op := client.Operation{Kind: client.Write, Run: func(_ context.Context, a *client.Attempt) error {
			command := fmt.Sprintf("txnNumber %d", a.ID)
			if a.Number() == 0 {
				command += " start"
			}
			if sent = append(sent, command); a.Number() < 2 {
				return refused()
			}
			return nil
		}}
		for range 2 {
			if err := c.Do(t.Context(), op); err != nil {
				t.Fatalf("Do: %v", err)
			}
		}
		want := []string{"txnNumber 1 start", "txnNumber 1", "txnNumber 1", "txnNumber 2 start", "txnNumber 2", "txnNumber 2"}
		if diff := cmp.Diff(want, sent); diff != "" {
			t.Errorf("commands (-want +got):\n%s", diff)
		}
	})
}

// Overload rule 6: an error that cannot be retried reaches the caller as it was.
func TestOverloadRule6PropagatesTheError(t *testing.T) {
	c := newClient(t, client.Options{})
	if err := c.Do(t.Context(), failing(errBoom).op(client.Write)); err != errBoom { //nolint:errorlint // the very same
		t.Errorf("Do = %v; want the operation's own error", err)
	}
}

// Overload rule 6, with the retryable writes specification: an attempt that may
// have written is not hidden behind a later refusal that wrote nothing. A
// generic command counts as a write; for a read the last error is the one.
func TestOverloadRule6PropagatesTheErrorThatMayHaveWritten(t *testing.T) {
	errCut := errors.New("connection cut half-way")
	cut := func() *client.Failure {
		return &client.Failure{Err: errCut, Overload: true, Retryable: true, Transient: true}
	}
	// A failure that may have written carries no RetryableError.
	ambiguous := cut()
	ambiguous.Retryable = false
	for k, want := range map[client.Kind]error{client.Write: errCut, client.Read: errBoom} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, client.Options{})
			err := c.Do(t.Context(), failing(append([]error{ambiguous}, repeat(refused(), 9)...)...).op(k))
			if !errors.Is(err, want) {
				t.Errorf("%v: error is %v; want %v", k, err, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, client.Options{})
		err := c.Do(t.Context(), failing(refused(), &client.Failure{Err: errCut}).op(client.Generic))
		if !errors.Is(err, errCut) {
			t.Errorf("generic: error is %v; want the later one, which may have written", err)
		}
	})
}

// emptied returns a budget of the seed's size that holds n tokens.
func emptied(t *testing.T, n float64) *client.Budget {
	t.Helper()
	b := client.NewBudget(1000)
	if !b.Consume(1000 - n) {
		t.Fatalf("cannot take %v tokens", 1000-n)
	}
	return b
}

// Adaptive rule 1: a success on the first attempt deposits 0.1.
func TestAdaptiveRule1FirstSuccessDepositsReturnRate(t *testing.T) {
	p, b := adaptive(client.Seed()), emptied(t, 0)
	for range 10 {
		p.Done(&client.State{Kind: client.Read}, b)
	}
	if got := b.Tokens(); got != 1 {
		t.Errorf("after ten successes the balance is %v; want exactly 1", got)
	}
}

// Adaptive rule 2: a success on a retry deposits 1.1.
func TestAdaptiveRule2RetrySuccessDepositsOneMore(t *testing.T) {
	p, b := adaptive(client.Seed()), emptied(t, 5)
	s := client.State{Kind: client.Write}
	p.Next(&s, refused(), never, b)
	p.Done(&s, b)
	if got := b.Tokens(); got != 5.1 {
		t.Errorf("balance is %v; want 5 - 1 + 1.1", got)
	}
}

// Adaptive rule 3: a retry that fails with something else than an overload
// deposits 1; a first attempt does not.
func TestAdaptiveRule3OtherFailureOfRetryDepositsOne(t *testing.T) {
	p, b := adaptive(client.Seed()), emptied(t, 5)
	s := client.State{Kind: client.Write}
	p.Next(&s, refused(), never, b)
	if p.Next(&s, &client.Failure{}, never, b); b.Tokens() != 5 {
		t.Errorf("after a retry failed otherwise the balance is %v; want 5 - 1 + 1", b.Tokens())
	}
	first := client.State{Kind: client.Write}
	if p.Next(&first, &client.Failure{}, never, b); b.Tokens() != 5 {
		t.Errorf("after a first attempt failed the balance is %v; want 5 as before", b.Tokens())
	}
	again := client.State{Kind: client.Write}
	p.Next(&again, refused(), never, b)
	if p.Next(&again, overloadOnly(), never, b); b.Tokens() != 4 {
		t.Errorf("after a retry failed by overload the balance is %v; want 4", b.Tokens())
	}
}

// Adaptive rule 4: without a token there is no retry, and nothing is waited for.
func TestAdaptiveRule4NoTokenNoRetry(t *testing.T) {
	p := adaptive(client.Seed())
	for balance, want := range map[float64]client.Why{0: client.WhyBudget, 0.9: client.WhyBudget, 1: client.WhyRetry} {
		b := emptied(t, balance)
		s := client.State{Kind: client.Read}
		if d := p.Next(&s, refused(), never, b); d.Why != want || !d.Retry && d.Wait != 0 {
			t.Errorf("with %v tokens: %+v; want %s", balance, d, want)
		}
	}
}

// Adaptive rule 5: each retry takes one token, and only retries that are made.
func TestAdaptiveRule5RetryConsumesOneToken(t *testing.T) {
	p, b := fixed(adaptive(client.Seed()), 1), client.NewBudget(1000)
	if _, why := waits(p, client.Read, b, never, times(refused(), 9)...); why != client.WhyMaxRetries || b.Tokens() != 995 {
		t.Errorf("after 5 retries the balance is %v; want 995", b.Tokens())
	}
	if _, why := waits(p, client.Read, b, 50*ms, refused()); why != client.WhyDeadline || b.Tokens() != 995 {
		t.Errorf("after a retry refused for %s the balance is %v; want 995", why, b.Tokens())
	}
}

// Interaction rule 1: only overload errors take tokens.
func TestInteractionRule1OnlyOverloadsTakeTokens(t *testing.T) {
	p, b := adaptive(client.Seed()), emptied(t, 0)
	s := client.State{Kind: client.Read}
	if d := p.Next(&s, transient(), never, b); !d.Retry || b.Tokens() != 0 {
		t.Errorf("transient failure with an empty budget: %+v, %v tokens; want a retry", d, b.Tokens())
	}
}

// Interaction rule 2: a retry is waited for if and only if the error was an
// overload, whichever policy allowed the retry.
func TestInteractionRule2BackoffOnlyForOverloads(t *testing.T) {
	p := fixed(client.Seed(), 1)
	hinted := transient()
	hinted.RetryAfter = time.Second
	got, _ := waits(p, client.Write, nil, never, hinted)
	if diff := cmp.Diff([]time.Duration{0}, got); diff != "" {
		t.Errorf("transient failure (-want +got):\n%s", diff)
	}
	both := transient()
	both.Overload = true // as WriteConflictRetryLimitExceeded: an overload that retryable writes retry
	got, _ = waits(p, client.Write, nil, never, both)
	if diff := cmp.Diff([]time.Duration{100 * ms}, got); diff != "" {
		t.Errorf("transient overload (-want +got):\n%s", diff)
	}
}

// Interaction rule 3.1: other failures are retried once, or while there is time
// when the caller says so; once an overload was met, MAX_RETRIES is the bound
// for all of them, with or without a deadline.
func TestInteractionRule3_1OverloadSetsTheBoundForAllRetries(t *testing.T) {
	one := client.Seed()
	unbounded := client.Seed()
	unbounded.OtherRetries = -1
	overloadAt := func(i int) []*client.Failure {
		all := times(transient(), 50)
		all[i] = refused()
		return all
	}
	for name, tc := range map[string]struct {
		policy   client.Policy
		left     time.Duration
		failures []*client.Failure
		want     int
	}{
		"no overload":                      {one, never, times(transient(), 50), 1},
		"no overload, deadline":            {one, time.Hour, times(transient(), 50), 1},
		"unbounded without a deadline":     {unbounded, never, times(transient(), 50), 1},
		"unbounded":                        {unbounded, time.Hour, times(transient(), 50), 50},
		"overload first":                   {one, never, overloadAt(0), 5},
		"overload on the retry":            {one, never, overloadAt(1), 5},
		"unbounded, overload on retry 3":   {unbounded, time.Hour, overloadAt(3), 5},
		"unbounded, overload after enough": {unbounded, time.Hour, overloadAt(20), 20},
	} {
		if got, _ := waits(&tc.policy, client.Read, nil, tc.left, tc.failures...); len(got) != tc.want {
			t.Errorf("%s: %d retries; want %d", name, len(got), tc.want)
		}
	}
}

// Interaction rule 3.2: with a deadline, a command that was retried MAX_RETRIES
// times already is not retried further after an overload.
func TestInteractionRule3_2NoRetryBeyondMaxRetriesAfterOverload(t *testing.T) {
	p := client.Seed()
	p.OtherRetries = -1
	s := client.State{Kind: client.Read}
	for range 5 {
		if d := p.Next(&s, transient(), time.Hour, nil); !d.Retry {
			t.Fatalf("transient failure: %+v; want a retry", d)
		}
	}
	if d := p.Next(&s, refused(), time.Hour, nil); d.Retry || d.Why != client.WhyMaxRetries {
		t.Errorf("overload after 5 retries: %+v; want %s", d, client.WhyMaxRetries)
	}
}

// A generic command is not retryable under the other policies, whatever its
// caller says of a failure.
func TestInteractionGenericIsRetriedForOverloadsOnly(t *testing.T) {
	p := client.Seed()
	s := client.State{Kind: client.Generic}
	if d := p.Next(&s, transient(), never, nil); d.Why != client.WhyNotRetryable {
		t.Errorf("transient failure: %+v; want %s", d, client.WhyNotRetryable)
	}
}

// Exceptions: monitoring, connection establishment and authentication are not
// subject to the policy, and leave the budget alone.
func TestExceptionsAreNotRetried(t *testing.T) {
	p, b := adaptive(client.Seed()), emptied(t, 10)
	s := client.State{Kind: client.Exempt}
	if d := p.Next(&s, refused(), never, b); d.Why != client.WhyExempt {
		t.Errorf("refused: %+v; want %s", d, client.WhyExempt)
	}
	if p.Done(&s, b); b.Tokens() != 10 {
		t.Errorf("balance is %v; want 10 as before", b.Tokens())
	}
}

// Token bucket: off by default, full of 1000 tokens at the start when on, one
// for each client, there for the client's life.
func TestTokenBucketIsOptInFullAndPerClient(t *testing.T) {
	for name, p := range map[string]client.Policy{
		"seed": client.Seed(), "driver": client.Driver(), "slow down": client.SlowDown(client.SlowDownOptions{}),
	} {
		if b := newClient(t, client.Options{Policy: &p}).Budget(); b != nil {
			t.Errorf("%s: a budget of %v tokens by default; want none", name, b.Tokens())
		}
		p.AdaptiveRetries = true
		one, other := newClient(t, client.Options{Policy: &p}), newClient(t, client.Options{Policy: &p})
		if got := one.Budget().Tokens(); got != 1000 {
			t.Errorf("%s: first balance is %v; want 1000", name, got)
		}
		if one.Budget().Consume(10); other.Budget().Tokens() != 1000 || one.Budget().Tokens() != 990 {
			t.Errorf("%s: two clients share a budget", name)
		}
	}
}

// Handshake: backpressure is announced; drivers that obey baseBackoffMS send
// the string "2".
func TestHandshakeAnnouncesBackpressure(t *testing.T) {
	seed, driver := client.Seed(), client.Driver()
	if k, v := seed.Handshake(); k != "backpressure" || v != true {
		t.Errorf("seed: %s: %v; want backpressure: true", k, v)
	}
	if k, v := driver.Handshake(); k != "backpressure" || v != "2" {
		t.Errorf("driver: %s: %v; want backpressure: \"2\"", k, v)
	}
}
