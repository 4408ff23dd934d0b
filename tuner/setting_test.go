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
		"orders.mode":                               {},
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
