package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/admitd/admitd/client"
)

const never = client.NoDeadline

var errBoom = errors.New("boom")

// refused is a retryable overload error: both labels.
func refused() *client.Failure {
	return &client.Failure{Err: errBoom, Overload: true, Retryable: true, Reason: "request_rate", Server: "a:1"}
}

// overloadOnly has the one label without the other.
func overloadOnly() *client.Failure { return &client.Failure{Err: errBoom, Overload: true} }

// transient is what the retryable reads and writes policies retry.
func transient() *client.Failure { return &client.Failure{Err: errBoom, Transient: true} }

// fixed makes a policy's jitter a constant.
func fixed(p client.Policy, jitter float64) *client.Policy {
	p.Rand = func() float64 { return jitter }
	return &p
}

func adaptive(p client.Policy) client.Policy {
	p.AdaptiveRetries = true
	return p
}

func newClient(tb testing.TB, o client.Options) *client.Client {
	tb.Helper()
	c, err := client.New(o)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	return c
}

// script runs an operation whose attempts fail with the given errors in turn
// and then succeed; it records when each attempt began, from the first.
type script struct {
	errs  []error
	begin time.Time
	at    []time.Duration
}

func failing(errs ...error) *script { return &script{errs: errs} }

func (s *script) run(context.Context, *client.Attempt) error {
	if s.begin.IsZero() {
		s.begin = time.Now()
	}
	s.at = append(s.at, time.Since(s.begin))
	if n := len(s.at); n <= len(s.errs) {
		return s.errs[n-1]
	}
	return nil
}

func (s *script) op(k client.Kind) client.Operation {
	return client.Operation{Name: "op", Kind: k, Run: s.run}
}

// repeat returns n copies of an error.
func repeat(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// waits feeds failures to a policy until it stops, and returns the waits.
func waits(p *client.Policy, k client.Kind, b *client.Budget, left time.Duration, failures ...*client.Failure) ([]time.Duration, client.Why) {
	s := client.State{Kind: k}
	var got []time.Duration
	for _, f := range failures {
		d := p.Next(&s, f, left, b)
		if !d.Retry {
			return got, d.Why
		}
		got = append(got, d.Wait)
	}
	return got, client.WhyRetry
}

// times returns n copies of a failure.
func times(f *client.Failure, n int) []*client.Failure {
	all := make([]*client.Failure, n)
	for i := range all {
		all[i] = f
	}
	return all
}

const ms = time.Millisecond
