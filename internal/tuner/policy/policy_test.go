package policy_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/internal/tuner/policy"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) // a Wednesday

// moment is what a rule sees, and what it wishes of a setting.
type moment struct {
	at     time.Duration
	values []float64
	s      policy.Setting
	want   float64
}

func TestRules(t *testing.T) {
	s := func(v float64) policy.Setting { return policy.Setting{Value: v, Base: 100, Min: 1, Max: 1000} }
	slack := s(50)
	slack.Slack = true
	for name, tc := range map[string]struct {
		rule  policy.Rule
		steps []moment
	}{
		"threshold": {
			&policy.Threshold{Above: 10, Below: 3, For: 30 * time.Second, Step: .2},
			[]moment{
				{0, []float64{11}, s(100), 100},
				{29 * time.Second, []float64{11}, s(100), 100},
				{30 * time.Second, []float64{11}, s(100), 80},
				{40 * time.Second, []float64{11}, s(80), 64},
				{50 * time.Second, []float64{5}, s(64), 64}, // between the bounds nothing moves
				{60 * time.Second, []float64{2}, s(64), 64},
				{90 * time.Second, []float64{2}, s(64), 76.8},
				{100 * time.Second, []float64{2}, s(95), 100},
				{110 * time.Second, []float64{2}, s(100), 100},
				{120 * time.Second, []float64{2}, slack, 50}, // nothing is refused because of it
			},
		},
		"threshold of what falls with load": {
			&policy.Threshold{Above: 64, Below: 8, Step: .5, Inverted: true},
			[]moment{{0, []float64{4}, s(100), 50}, {time.Second, []float64{30}, s(50), 50}, {2 * time.Second, []float64{100}, s(50), 75}},
		},
		"target": {
			&policy.Target{Target: .8, Step: .1},
			[]moment{
				{0, []float64{.8}, s(100), 100},
				{0, []float64{.79}, s(100), 100},
				{0, []float64{1}, s(100), 90},                     // bound by the step
				{0, []float64{.4}, s(100), 110},                   // the same upwards
				{0, []float64{.88}, s(100), 100 * math.Exp(-.05)}, // a tenth too high: half of that
				{0, []float64{.4}, slack, 50},
				{0, []float64{9}, s(100), 90}, // far away is no reason to go further
			},
		},
		"target of what falls as the setting is raised": {
			&policy.Target{Target: 10, Step: .1, Inverted: true},
			[]moment{{0, []float64{5}, s(100), 90}, {0, []float64{20}, s(100), 110}},
		},
		"backlog": {
			&policy.Backlog{Acceptable: 1000, Minimum: 10, Limit: 500},
			[]moment{
				{0, []float64{0, 0}, s(100), 500},
				{0, []float64{2000, 300}, s(100), 150},
				{0, []float64{1e9, 300}, s(100), 10},
				{0, []float64{500, 300}, s(100), 500},
				{0, []float64{5, 0}, s(100), 500},
				{0, []float64{5000, 0}, s(100), 10},
			},
		},
		"backlog that ramps up": {
			&policy.Backlog{Acceptable: 1000, Minimum: 100, Limit: 500, RampUp: 10 * time.Second},
			[]moment{
				{0, []float64{0, 0}, s(100), 100},
				{5 * time.Second, []float64{0, 0}, s(100), 300},
				{10 * time.Second, []float64{0, 0}, s(100), 500},
			},
		},
		"objective": {
			&policy.Objective{Objective: .1, Step: .2},
			[]moment{{0, []float64{.2}, s(100), 80}, {0, []float64{.09}, s(100), 100}, {0, []float64{.01}, s(100), 110}, {0, []float64{.01}, slack, 50}},
		},
		"schedule": {
			&policy.Schedule{Hours: []policy.Hours{
				{From: 13 * time.Hour, To: 14 * time.Hour, Bound: 30},
				{From: 22 * time.Hour, To: 2 * time.Hour, Days: []time.Weekday{time.Wednesday}, Bound: 60},
			}},
			[]moment{
				{0, nil, s(100), 100},
				{time.Hour, nil, s(100), 30},
				{2 * time.Hour, nil, s(30), 100},
				{10 * time.Hour, nil, s(100), 60},
				{13*time.Hour + 59*time.Minute, nil, s(60), 60}, // past midnight
				{14 * time.Hour, nil, s(60), 100},
				{34 * time.Hour, nil, s(100), 100}, // on Thursday it does not begin
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i, m := range tc.steps {
				tc.rule.Observe(noon.Add(m.at), m.values)
				got := tc.rule.Wish(m.s)
				if math.Abs(got.Value-m.want) > 1e-6 {
					t.Errorf("step %d, after %v with %v: wish %v (%s); want %v", i, m.at, m.values, got.Value, got.Why, m.want)
				}
				if strings.TrimSpace(got.Why) == "" {
					t.Errorf("step %d: a wish without a reason", i)
				}
			}
		})
	}
}

// The PI controller settles on a backend whose load answers in proportion, from
// far below and far above, and stays there.
func TestTargetSettles(t *testing.T) {
	for _, start := range []float64{20, 500} {
		rule, value := &policy.Target{Target: .8, Step: .1}, start
		now := noon
		for range 60 {
			now = now.Add(10 * time.Second)
			rule.Observe(now, []float64{min(value/125, 1)}) // 100 is right
			w := rule.Wish(policy.Setting{Value: value, Base: start, Max: 1000})
			if w.Value != value {
				rule.Moved(now)
			}
			value = w.Value
		}
		if value < 95 || value > 105 {
			t.Errorf("from %v the target settles at %v; want 100 within 5 %%", start, value)
		}
	}
}

// Whatever the exporter does, the rate stays within the formula's own bounds.
func TestBacklogKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.Float64Range(1, 1e4).Draw(t, "minimum")
		most := least + rapid.Float64Range(0, 1e6).Draw(t, "more")
		b := &policy.Backlog{Acceptable: rapid.Float64Range(1, 1e9).Draw(t, "acceptable"), Minimum: least, Limit: most}
		b.Observe(noon, []float64{rapid.Float64().Draw(t, "backlog"), rapid.Float64().Draw(t, "drain")})
		if w := b.Wish(policy.Setting{}); w.Value < least || w.Value > most || math.IsNaN(w.Value) {
			t.Fatalf("Wish() = %v; want within [%v, %v]", w.Value, least, most)
		}
	})
}
