package signal_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/tuner/signal"
)

const second = int64(time.Second)

// step is one moment of a signal's life: a reading or a failure, and what the
// signal says then.
type step struct {
	at    int64 // seconds
	read  float64
	stamp int64 // seconds before at that the reading was true
	fail  error
	skip  bool // nothing is read
	want  float64
	trust signal.Distrust
}

func TestTrust(t *testing.T) {
	nan, down := math.NaN(), errors.New("connection refused")
	for name, tc := range map[string]struct {
		o     signal.Options
		steps []step
	}{
		"nothing read": {steps: []step{{at: 0, skip: true, trust: signal.Never}}},
		"last reading": {steps: []step{{at: 0, read: 3, want: 3}, {at: 1, read: 4, want: 4}}},
		"average of a window": {
			o:     signal.Options{Window: 2 * time.Second},
			steps: []step{{at: 0, read: 1, want: 1}, {at: 1, read: 3, want: 2}, {at: 2, read: 5, want: 3}, {at: 3, read: 7, want: 5}},
		},
		"quantile of a window": {
			o:     signal.Options{Window: 10 * time.Second, Quantile: 0.5},
			steps: []step{{at: 0, read: 1, want: 1}, {at: 1, read: 9, want: 1}, {at: 2, read: 5, want: 5}},
		},
		"rate of a counter": {
			o:     signal.Options{Rate: true, Window: 10 * time.Second},
			steps: []step{{at: 0, read: 100, trust: signal.Never}, {at: 2, read: 140, want: 20}, {at: 4, read: 200, want: 25}},
		},
		"a counter that begins anew": {
			o: signal.Options{Rate: true, Window: 10 * time.Second},
			steps: []step{
				{at: 0, read: 100, trust: signal.Never},
				{at: 1, read: 110, want: 10},
				{at: 2, read: 5, trust: signal.Never},
				{at: 3, read: 15, want: 10},
			},
		},
		"a counter that falls again and again": {
			o: signal.Options{Rate: true, Window: 20 * time.Second},
			steps: []step{
				{at: 0, read: 100, trust: signal.Never},
				{at: 1, read: 90, trust: signal.Never},
				{at: 2, read: 80, trust: signal.Never},
				{at: 3, read: 70, trust: signal.Backwards},
				{at: 4, read: 71, want: 1, trust: signal.Backwards},
			},
		},
		"resets are forgotten while nothing is read": {
			o: signal.Options{Rate: true},
			steps: []step{
				{at: 0, read: 100, trust: signal.Never}, {at: 1, read: 90, trust: signal.Never}, {at: 2, read: 80, trust: signal.Never},
				{at: 3, read: 70, trust: signal.Backwards}, {at: 20, read: 87, want: 1, trust: signal.Backwards},
				{at: 29, read: 96, want: 1, trust: signal.Backwards}, {at: 34, skip: true, want: 1},
			},
		},
		"stale": {
			o:     signal.Options{MaxAge: 5 * time.Second},
			steps: []step{{at: 0, read: 1, want: 1}, {at: 5, skip: true, want: 1}, {at: 6, skip: true, want: 1, trust: signal.Stale}},
		},
		"readings that come late say when they were true": {
			o:     signal.Options{MaxAge: 30 * time.Second},
			steps: []step{{at: 100, read: 1, stamp: 60, want: 1, trust: signal.Stale}},
		},
		"older than the one before": {
			steps: []step{{at: 10, read: 1, want: 1}, {at: 11, read: 2, stamp: 5, want: 1, trust: signal.Backwards}, {at: 12, read: 2, want: 2}},
		},
		"not a number": {
			steps: []step{{at: 0, read: 1, want: 1}, {at: 1, read: nan, want: 1, trust: signal.NaN}, {at: 2, read: 2, want: 2}},
		},
		"never a number": {steps: []step{{at: 0, read: math.Inf(1), trust: signal.NaN}}},
		"out of range": {
			o:     signal.Options{Min: 0, Max: 1},
			steps: []step{{at: 0, read: 0.5, want: 0.5}, {at: 1, read: 1.5, want: 0.5, trust: signal.Range}},
		},
		"one failure is not the end, three are": {
			steps: []step{
				{at: 0, read: 1, want: 1},
				{at: 1, fail: down, want: 1},
				{at: 2, fail: down, want: 1},
				{at: 3, fail: down, want: 1, trust: signal.Failing},
				{at: 4, read: 2, want: 2},
			},
		},
		"slow": {steps: []step{{at: 0, fail: fmt.Errorf("get: %w", context.DeadlineExceeded), trust: signal.Slow}}},
		"stuck": {
			o: signal.Options{StuckFor: 3 * time.Second},
			steps: []step{
				{at: 0, read: .5, want: .5}, {at: 2, read: .5, want: .5}, {at: 3, read: .5, want: .5, trust: signal.Stuck}, {at: 4, read: .6, want: .6},
			},
		},
		// A machine that was busy to 100 % for a minute was taken for a stuck
		// signal, just when the guard was needed.
		"saturated is not stuck": {
			o:     signal.Options{StuckFor: 3 * time.Second, Max: 1},
			steps: []step{{at: 0, read: 1, want: 1}, {at: 9, read: 1, want: 1}},
		},
		"one spike is set aside": {
			o: signal.Options{Window: 20 * time.Second},
			steps: []step{
				{at: 0, read: 10, want: 10},
				{at: 1, read: 10, want: 10},
				{at: 2, read: 10, want: 10},
				{at: 3, read: 10, want: 10},
				{at: 4, read: 10, want: 10},
				{at: 5, read: 5000, want: 10, trust: signal.Spike},
				{at: 6, read: 10, want: 10},
			},
		},
		"three that agree are a new level": {
			o: signal.Options{Window: 20 * time.Second},
			steps: []step{
				{at: 0, read: 10, want: 10},
				{at: 1, read: 10, want: 10},
				{at: 2, read: 10, want: 10},
				{at: 3, read: 10, want: 10},
				{at: 4, read: 10, want: 10},
				{at: 5, read: 500, want: 10, trust: signal.Spike},
				{at: 6, read: 500, want: 10, trust: signal.Spike},
				{at: 7, read: 500, want: 500},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := signal.New(tc.o)
			for _, st := range tc.steps {
				now := st.at * second
				switch {
				case st.skip:
				case st.fail != nil:
					s.Fail(st.fail)
				default:
					s.Add(now, now-st.stamp*second, st.read)
				}
				got := s.Value(now)
				if math.Abs(got.Value-st.want) > 1e-9 || got.Distrust != st.trust {
					t.Errorf("after %d s: value %v %q; want %v %q", st.at, got.Value, got.Distrust, st.want, st.trust)
				}
			}
		})
	}
}

// A source that answers a million times a second must not fill the memory, and
// whatever it says, an average of finite numbers is finite.
func TestBounded(t *testing.T) {
	s := signal.New(signal.Options{Window: time.Hour, Spike: -1})
	for i := range int64(100_000) {
		s.Add(i, i, math.MaxFloat64)
	}
	if v := s.Value(100_000); !v.OK() || math.IsInf(v.Value, 0) {
		t.Errorf("Value() = %+v; want a finite, trusted one", v)
	}
}

func TestOptionsValidate(t *testing.T) {
	for _, o := range []signal.Options{{Quantile: 1.5}, {Window: -1}, {Min: 2, Max: 1}} {
		if o.Validate() == nil {
			t.Errorf("Validate(%+v) = nil; want an error", o)
		}
	}
	if err := (signal.Options{}).Validate(); err != nil {
		t.Errorf("Validate of the zero value: %v", err)
	}
}
