package labels_test

import (
	"testing"

	"github.com/admitd/admitd/labels"
)

func TestRateLimitFields(t *testing.T) {
	for _, tc := range []struct {
		perSecond, burst float64
		wait             int64
		policy, state    string
	}{
		{50, 1, 3, `"requests";q=50;w=1`, `"requests";r=0;t=3`},
		{50, 0, 1, `"requests";q=50;w=1`, `"requests";r=0;t=1`},
		{0.5, 1, 2, `"requests";q=1;w=2`, `"requests";r=0;t=2`},
		{10, 2.5, 1, `"requests";q=30;w=3`, `"requests";r=0;t=1`},
		{50, 1, 0, `"requests";q=50;w=1`, `"requests";r=0`},
		{0, 1, 1, "", ""},
	} {
		policy, state := labels.RateLimitFields(tc.perSecond, tc.burst, tc.wait)
		if policy != tc.policy || state != tc.state {
			t.Errorf("RateLimitFields(%v, %v, %d) = %s, %s; want %s, %s", tc.perSecond, tc.burst, tc.wait, policy, state, tc.policy, tc.state)
		}
	}
}

func TestRetryAfterSecondsIsNeverZero(t *testing.T) {
	for ms, want := range map[int64]int64{0: 1, 1: 1, 1000: 1, 1001: 2, 137_000: 137} {
		if got := labels.RetryAfterSeconds(ms); got != want {
			t.Errorf("RetryAfterSeconds(%d) = %d; want %d", ms, got, want)
		}
	}
}
