package tuner_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/tuner"
	"github.com/admitd/admitd/internal/tuner/policy"
)

func TestParseSetting(t *testing.T) {
	for text, want := range map[string]tuner.Setting{
		"orders.requests.rate":                      {Ingress: "orders", Key: "requests.rate"},
		"a.b.connections.maxOpen":                   {Ingress: "a.b", Key: "connections.maxOpen"},
		"orders.partitions.total":                   {Ingress: "orders", Key: "partitions.total"},
		"orders.partitions.default.limit.maxLimit":  {Ingress: "orders", Partition: "default", Key: "limit.maxLimit"},
		"orders.partitions.named.a.b.queue.maxWait": {Ingress: "orders", Partition: "a.b", Key: "queue.maxWait"},
		"*.partitions.*.rate":                       {Ingress: "*", Partition: "*", Key: "rate"},
		"orders":                                    {},
		"orders.requests.exempt":                    {},
		"orders.partitions.default":                 {},
		"orders.partitions.default.limit.algorithm": {},
		".requests.rate":                            {},
		"orders.mode":                               {Ingress: "orders", Key: "mode"},
		"orders.partitions.mode":                    {},
		".mode":                                     {},
	} {
		got, err := tuner.ParseSetting(text)
		if bad := want == (tuner.Setting{}); bad != errors.Is(err, tuner.ErrSetting) || got != want {
			t.Errorf("ParseSetting(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestSettingsRoundTrip(t *testing.T) {
	for setting, want := range map[string]float64{
		"orders.requests.rate": 123.457, "orders.connections.maxOpen": 57, "orders.partitions.total": 33,
		"orders.partitions.default.limit.requestTimeout": .15, "orders.partitions.check.out.rate": 41.5,
		"orders.partitions.b.limit.maxLimit": 42,
	} {
		w := newWorld(t, 5000, 500, 400)
		p := wishing(t, "p", setting, want)
		p.Min = p.Adjust.Least()
		u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}})
		w.run(time.Minute, u)
		if got := value(t, w, setting); got != want {
			t.Errorf("%s = %v; want %v; %v", setting, got, want, kinds(u))
		}
	}
}

// Settings of which 0 means "without bound" were lowered to 0 by a min of 0, or by
// a min below 1 that was cut to a whole number, and the gate let everything in.
func TestLoweringNeverUnbounds(t *testing.T) {
	schedule := func(bound float64) policy.Rule {
		return &policy.Schedule{Hours: []policy.Hours{{From: 0, To: 24 * time.Hour, Bound: bound}}}
	}
	for setting, least := range map[string]float64{
		"orders.requests.rate": 0.001, "orders.connections.rate": 0.001, "orders.connections.maxOpen": 1, "orders.partitions.total": 1,
		"orders.partitions.default.rate": 0.001, "orders.partitions.default.limit.maxLimit": 1, "orders.partitions.default.limit.requestTimeout": 0.001,
	} {
		for name, rule := range map[string]policy.Rule{
			"threshold": &policy.Threshold{Above: -1, Below: -2, Step: 0.9}, "schedule": schedule(0), "backlog": &policy.Backlog{Acceptable: 1e-12, Limit: 9},
		} {
			w := newWorld(t, 5000, 500, 400)
			orders := w.settings["orders"]
			orders["connections"].(map[string]any)["rate"], orders["partitions"].(map[string]any)["total"] = 40.0, 3.0
			orders["partitions"].(map[string]any)["default"].(map[string]any)["rate"] = 40.0
			p := wishing(t, "p", setting, 0)
			p.Rule, p.Min, p.Max, p.Cooldown = rule, least, 1000, time.Second
			var signals []tuner.Signal
			switch name {
			case "threshold":
				p.Signals, p.Step = []string{"n"}, 0.9
			case "backlog":
				p.Signals = []string{"n", "n"}
			}
			if len(p.Signals) > 0 {
				signals = []tuner.Signal{{Name: "n", Source: never{}}}
			}
			u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}, Signals: signals})
			w.each = func(w *world) { u.Feed(w.now, "n", 1e-9, w.now, nil) }
			w.run(20*time.Second, u)
			if got := value(t, w, setting); got != least {
				t.Errorf("%s by a %s = %v; want its least, %v; %v", setting, name, got, least, kinds(u))
			}
			p.Min = least * 0.99
			if err := (tuner.Options{Policies: []tuner.Policy{p}}).Validate(); err == nil || !strings.Contains(err.Error(), "min must be at least") {
				t.Errorf("Validate of %s with a min of %v: %v; want that it is too small", setting, p.Min, err)
			}
		}
	}
}

// A policy whose min lies below the limit's own minLimit was refused at every
// cooldown, stopped short of it, and did not say why. Limits bound each other.
func TestLimitsBoundEachOther(t *testing.T) {
	const part = "orders.partitions.default.limit."
	for key, tc := range map[string]struct{ wish, want float64 }{
		"maxLimit": {5, 30}, "initialLimit": {2, 30}, "minLimit": {90, 40}, "alpha": {50, 5}, "beta": {1, 4},
	} {
		w := newWorld(t, 5000, 500, 400)
		limit := w.settings["orders"]["partitions"].(map[string]any)["default"].(map[string]any)["limit"].(map[string]any)
		for k, v := range map[string]float64{"minLimit": 30, "initialLimit": 40, "alpha": 3, "beta": 6} {
			limit[k] = v
		}
		p := wishing(t, "p", part+key, tc.wish)
		p.Min = 1
		u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}})
		w.run(time.Minute, u)
		why := u.Status(0).Settings[0].Why
		if got := value(t, w, part+key); got != tc.want || !strings.Contains(why, "Limit of the same limit") && !strings.Contains(why, "a of the same limit") {
			t.Errorf("%s = %v (%s); want %v, and what bounds it; %v", key, got, why, tc.want, kinds(u))
		}
	}
}

// A guard that lowered maxLimit below initialLimit was refused by the
// configuration's own rules, and guarded no further. The initial limit follows
// it down, and comes back with it.
func TestInitialLimitFollows(t *testing.T) {
	const most, initial = "orders.partitions.default.limit.maxLimit", "orders.partitions.default.limit.initialLimit"
	w := newWorld(t, 5000, 500, 400)
	p := wishing(t, "p", most, 12)
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}})
	w.run(5*time.Second, u)
	if a, b := value(t, w, most), value(t, w, initial); a != 12 || b != 12 {
		t.Fatalf("maxLimit, initialLimit = %v, %v; want 12, 12; %v", a, b, kinds(u))
	}
	p.Rule.(*fixedWish).value = 50
	w.run(2*time.Minute, u)
	if a, b := value(t, w, most), value(t, w, initial); a != 50 || b != 20 {
		t.Errorf("maxLimit, initialLimit = %v, %v; want 50, 20", a, b)
	}
}

// A policy moves the mode towards refusing less, and never back: that is for
// people to do.
func TestModeMovesOneWay(t *testing.T) {
	w := newWorld(t, 5000, 500, 400)
	w.settings["orders"]["mode"] = "enforce"
	down, up := wishing(t, "down", "orders.mode", 1), wishing(t, "up", "orders.mode", 2)
	down.Min, down.Max, down.Step, up.Min, up.Max = 1, 2, 0.5, 0, 2
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{down}})
	w.run(time.Minute, u)
	if got := w.settings["orders"]["mode"]; got != "shadow" {
		t.Errorf("mode = %v; want shadow; %v", got, kinds(u))
	}
	w.settings["orders"]["mode"] = "off" // the first of them is one too
	off := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{down}})
	off.Tick(t.Context(), w.now)
	if all := off.Status(0).Settings; len(all) != 1 || *all[0].Value != 0 {
		t.Errorf("settings of an ingress that is off: %+v; want its mode at 0", all)
	}
	w.settings["orders"]["mode"] = "shadow"
	u = newTuner(t, w, tuner.Options{Policies: []tuner.Policy{up}})
	w.run(time.Hour, u)
	if got := w.settings["orders"]["mode"]; got != "shadow" {
		t.Errorf("mode = %v; want that it stays at shadow; %v", got, kinds(u))
	}
}
