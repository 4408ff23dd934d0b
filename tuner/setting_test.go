package tuner_test

import (
	"errors"
	"testing"
	"time"

	"github.com/admitd/admitd/tuner"
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
		p.Min = 0
		u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}})
		w.run(time.Minute, u)
		if got := value(t, w, setting); got != want {
			t.Errorf("%s = %v; want %v; %v", setting, got, want, kinds(u))
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
	u = newTuner(t, w, tuner.Options{Policies: []tuner.Policy{up}})
	w.run(time.Hour, u)
	if got := w.settings["orders"]["mode"]; got != "shadow" {
		t.Errorf("mode = %v; want that it stays at shadow; %v", got, kinds(u))
	}
}
