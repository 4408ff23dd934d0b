package client_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/client"
)

// Drivers double once more than the seed: the first wait is up to 200 ms.
func TestDriverBackoff(t *testing.T) {
	p := client.Driver()
	p.MaxRetries = 9
	got, _ := waits(fixed(p, 1), client.Read, nil, never, times(refused(), 9)...)
	want := []time.Duration{
		200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms,
		10 * time.Second, 10 * time.Second, 10 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

// The number of retries is 2 unless configured, and 0 switches them off.
func TestDriverRetriesAreConfigurable(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5} {
		p := client.Driver()
		p.MaxRetries = n
		if got, _ := waits(&p, client.Read, nil, never, times(refused(), 20)...); len(got) != n {
			t.Errorf("MaxRetries %d: %d retries", n, len(got))
		}
	}
}

// A positive baseBackoffMS replaces the base of 100 ms, and stays below the
// bound; the seed's profile does not know it.
func TestDriverObeysServerBase(t *testing.T) {
	for base, want := range map[time.Duration][]time.Duration{
		0:                {200 * ms, 400 * ms},
		-5:               {200 * ms, 400 * ms},
		5 * ms:           {10 * ms, 20 * ms},
		time.Second:      {2 * time.Second, 4 * time.Second},
		math.MaxInt64:    {10 * time.Second, 10 * time.Second},
		3 * time.Second:  {6 * time.Second, 10 * time.Second},
		50 * time.Second: {10 * time.Second, 10 * time.Second},
	} {
		f := refused()
		f.BaseBackoff = base
		got, _ := waits(fixed(client.Driver(), 1), client.Read, nil, never, f, f)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("baseBackoffMS %v (-want +got):\n%s", base, diff)
		}
	}
	f := refused()
	f.BaseBackoff = time.Second
	if got, _ := waits(fixed(client.Seed(), 1), client.Read, nil, never, f); got[0] != 100*ms {
		t.Errorf("seed with baseBackoffMS: wait is %v; want 100ms", got[0])
	}
}

// Slow down: the wait is interval + random(0, jitter), and all five options count.
func TestSlowDownOptions(t *testing.T) {
	custom := client.SlowDownOptions{
		Initial: 50 * ms, Retries: 5, Multiplier: 3, Jitter: 20 * ms, Max: 500 * ms,
	}
	for name, tc := range map[string]struct {
		o      client.SlowDownOptions
		jitter float64
		want   []time.Duration
	}{
		"least":    {custom, 0, []time.Duration{50 * ms, 150 * ms, 450 * ms, 500 * ms, 500 * ms}},
		"half":     {custom, 0.5, []time.Duration{60 * ms, 160 * ms, 460 * ms, 510 * ms, 510 * ms}},
		"most":     {custom, 1, []time.Duration{70 * ms, 170 * ms, 470 * ms, 520 * ms, 520 * ms}},
		"defaults": {client.SlowDownOptions{}, 0, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3 * time.Second}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := fixed(client.SlowDown(tc.o), tc.jitter)
			c := newClient(t, client.Options{Policy: p})
			s := failing(repeat(refused(), 50)...)
			_ = c.Do(t.Context(), s.op(client.Read))
			var got []time.Duration
			for i := 1; i < len(s.at); i++ {
				got = append(got, s.at[i]-s.at[i-1])
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: waits (-want +got):\n%s", name, diff)
			}
		})
	}
}

// Slow down, additional rule 1: every retried request passes the backoff, also
// one whose failure was no overload.
func TestSlowDownRule1EveryRetryBacksOff(t *testing.T) {
	p := fixed(client.SlowDown(client.SlowDownOptions{}), 0)
	got, _ := waits(p, client.Read, nil, never, transient(), refused(), transient())
	if diff := cmp.Diff([]time.Duration{100 * ms, 200 * ms, 400 * ms}, got); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

// A hint is held to [own delay, own delay + 5 s].
func TestHintIsClamped(t *testing.T) {
	const own = 400 * ms // retry 1 of a driver with jitter 1 and base 200 ms
	for hint, want := range map[time.Duration]time.Duration{
		0:                       own,
		-time.Hour:              own,
		own - 1:                 own,
		own + 1:                 own + 1,
		3 * time.Second:         3 * time.Second,
		own + 5*time.Second:     own + 5*time.Second,
		own + 5*time.Second + 1: own + 5*time.Second,
		math.MaxInt64:           own + 5*time.Second,
	} {
		f := refused()
		f.BaseBackoff, f.RetryAfter = 200*ms, hint
		got, _ := waits(fixed(client.Driver(), 1), client.Read, nil, never, f)
		if diff := cmp.Diff([]time.Duration{want}, got); diff != "" {
			t.Errorf("hint %v (-want +got):\n%s", hint, diff)
		}
	}
	deaf := client.Driver()
	deaf.HintSlack = 0
	f := refused()
	f.RetryAfter = time.Second
	if got, _ := waits(fixed(deaf, 1), client.Read, nil, never, f); got[0] != 200*ms {
		t.Errorf("without HintSlack the wait is %v; want 200ms", got[0])
	}
}

// A hint is held to the deadline: it is shortened to leave MinAttempt, and when
// nothing would be left there is no retry, and no wait for it.
func TestHintIsClampedToDeadline(t *testing.T) {
	for name, tc := range map[string]struct {
		hint, left, minAttempt time.Duration
		want                   client.Decision
	}{
		"in time":                 {300 * ms, 400 * ms, 0, client.Decision{Retry: true, Wait: 300 * ms, Why: client.WhyRetry}},
		"at the deadline":         {400 * ms, 400 * ms, 0, client.Decision{Why: client.WhyDeadline}},
		"after it":                {time.Hour, 400 * ms, 0, client.Decision{Why: client.WhyDeadline}},
		"shortened":               {time.Hour, 400 * ms, 50 * ms, client.Decision{Retry: true, Wait: 350 * ms, Why: client.WhyRetry}},
		"just leaves enough":      {350 * ms, 400 * ms, 50 * ms, client.Decision{Retry: true, Wait: 350 * ms, Why: client.WhyRetry}},
		"own delay leaves less":   {0, 240 * ms, 50 * ms, client.Decision{Why: client.WhyDeadline}},
		"own delay leaves enough": {0, 250 * ms, 50 * ms, client.Decision{Retry: true, Wait: 200 * ms, Why: client.WhyRetry}},
		"deadline passed":         {0, -1, 0, client.Decision{Why: client.WhyDeadline}},
	} {
		p := client.Driver()
		p.MinAttempt = tc.minAttempt
		f := refused()
		f.RetryAfter = tc.hint
		got := fixed(p, 1).Next(&client.State{Kind: client.Read}, f, tc.left, nil)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What is out of range is refused by name, all of it at once.
func TestValidateNamesEveryField(t *testing.T) {
	p := client.Policy{
		MaxRetries: -1, HintSlack: -1, AdaptiveRetries: true, BudgetCapacity: math.NaN(), BudgetReturn: 2,
		Backoff: client.Interval{Multiplier: 0.5},
	}
	_, err := client.New(client.Options{Policy: &p})
	if err == nil {
		t.Fatal("New accepted it")
	}
	for _, field := range []string{"MaxRetries", "HintSlack", "BudgetCapacity", "BudgetReturn", "Interval"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("error does not name %s: %v", field, err)
		}
	}
	p = client.Policy{Backoff: client.Exponential{Base: -1}}
	if err := p.Validate(); err == nil {
		t.Error("Validate accepted an Exponential with a negative base")
	}
	for name, p := range map[string]client.Policy{
		"zero": {}, "seed": client.Seed(), "driver": client.Driver(), "slow down": client.SlowDown(client.SlowDownOptions{}),
	} {
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The zero policy retries nothing, ever.
func TestZeroPolicyRetriesNothing(t *testing.T) {
	c := newClient(t, client.Options{Policy: &client.Policy{}})
	s := failing(refused())
	if err := c.Do(t.Context(), s.op(client.Read)); err == nil || len(s.at) != 1 {
		t.Errorf("%d attempts, %v; want one that fails", len(s.at), err)
	}
}
