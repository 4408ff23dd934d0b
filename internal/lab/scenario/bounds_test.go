package scenario_test

import (
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/lab/scenario"
)

// Each bound of a scenario takes what lies on it, and refuses with its own words
// what lies beyond.
func TestBounds(t *testing.T) {
	for _, tc := range []struct {
		on, beyond string // lines added to the smallest scenario
		want       string // in what is said of the latter
	}{
		{"gates: 64\n", "gates: 65\n", "gates must be at most 64 (65)"},
		{"toldAs: 64\n", "toldAs: 65\n", "toldAs must be in [0, 64] (65)"},
		{"toldAs: 0\n", "toldAs: -1\n", "toldAs must be in [0, 64] (-1)"},
		{"seeds: 1000\n", "seeds: 1001\n", "seeds must be in [1, 1000] (1001)"},
		{"seeds: 1\n", "seeds: -1\n", "seeds must be in [1, 1000] (-1)"},
		{"timeout: 1ns\n", "timeout: -1ns\n", "timeout must be > 0"},
		{"backendTimeout: 1ns\n", "backendTimeout: -1ns\n", "backendTimeout must be > 0"},
		{"abandon: finish\n", "abandon: finished\n", "abandon must be finish or cancel (finished)"},
		{"backend: { workers: 10000, service: { mean: 1s } }\n", "backend: { workers: 10001, service: { mean: 1s } }\n", "backend.workers must be in [1, 10000] (10001)"},
		{"backend: { workers: 1 }\n", "backend: { workers: -1 }\n", "backend.workers must be in [1, 10000] (-1)"},
		{"backend: { workers: 1, service: { kind: classes, other: 1ns } }\n", "backend: { workers: 1, service: { kind: bimodal } }\n", "service.other must be > 0 (0s)"},
		{"backend: { workers: 1, service: { mean: 1ms } }\n", "backend: { workers: 1, service: { mean: -1ms } }\n", "service.mean must be > 0 (-1ms)"},
		{"backend: { workers: 1, cancelled: continues }\n", "backend: { workers: 1, cancelled: stop }\n", "backend.cancelled must be stops or continues (stop)"},
		{"backend: { workers: 1, contention: { serial: 0 } }\n", "backend: { workers: 1, contention: { serial: -0.1 } }\n", "backend.contention must be >= 0"},
		{"backend: { workers: 1, contention: { crosstalk: 0 } }\n", "backend: { workers: 1, contention: { crosstalk: -0.1 } }\n", "backend.contention must be >= 0"},
		{"backend: { workers: 1, service: { kind: pareto, shape: 1.01 } }\n", "backend: { workers: 1, service: { kind: pareto, shape: 1 } }\n", "service.shape must be > 1 for pareto (1)"},
		{"backend: { workers: 1, discipline: sharing }\n", "backend: { workers: 1, discipline: lifo }\n", "backend.discipline must be fifo or sharing (lifo)"},
		{"backend: { workers: 1, discipline: fifo, queue: 1 }\n", "backend: { workers: 1, discipline: sharing, queue: 1 }\n", "are for the discipline fifo"},
		{"backend: { workers: 1, queueTimeout: 1ns }\n", "backend: { workers: 1, discipline: sharing, queueTimeout: 1ns }\n", "are for the discipline fifo"},
		{"backend: { workers: 1, queueTimeout: 0s }\n", "backend: { workers: 1, queueTimeout: -1s }\n", "backend.queueTimeout must be >= 0 (-1s)"},
		{"bursts: [{ at: 1s, requests: 1 }]\n", "bursts: [{ at: 1s, requests: 0 }]\n", "bursts must have 1 to 1000000 requests (0)"},
		{"bursts: [{ at: 1s, requests: 1000000 }]\n", "bursts: [{ at: 1s, requests: 1000001 }]\n", "bursts must have 1 to 1000000 requests (1000001)"},
		{"arrivals: { batch: 100000 }\n", "arrivals: { batch: 100001 }\n", "arrivals.batch must be at most 100000 (100001)"},
		{"arrivals: { batch: 0 }\n", "arrivals: { batch: -1 }\n", "arrivals.batch must be at most 100000 (-1)"},
		{"arrivals: { high: 1, on: 1s, off: 1s }\n", "arrivals: { high: 0.9, on: 1s, off: 1s }\n", "arrivals.high must be at least 1"},
		{"arrivals: { high: 2, on: 1s, off: 1s }\n", "arrivals: { high: 2.1, on: 1s, off: 1s }\n", "leave something for the calm times"},
		{"arrivals: { high: 1.5, on: 1s, off: 1s }\n", "arrivals: { high: 1.5, on: 1s }\n", "with on and off > 0"},
		{"arrivals: { high: 1.5, on: 1ns, off: 1s }\n", "arrivals: { high: 1.5, off: 1s }\n", "with on and off > 0"},
		{"health: [{ at: 1s, over: 2s }, { at: 3s }]\n", "health: [{ at: 1s, over: 3s }, { at: 3s }]\n", "health: a ramp must end before the next step (3s)"},
		{"health: [{ at: 1s }, { at: 1s }]\n", "health: [{ at: 2s }, { at: 1s }]\n", "health must be in order of time"},
		{"health: [{ at: 1s, share: 1 }]\n", "health: [{ at: 1s, share: 1.01 }]\n", "health.share must be in [0, 1]"},
		{"health: [{ at: 1s, share: 0 }]\n", "health: [{ at: 1s, share: -0.01 }]\n", "health.share must be in [0, 1]"},
		{"health: [{ at: 1s, workers: 10000 }]\n", "health: [{ at: 1s, workers: 10001 }]\n", "health.workers must be at most 10000 (10001)"},
		{"health: [{ at: 1s, workers: 0 }]\n", "health: [{ at: 1s, workers: -1 }]\n", "health.workers must be at most 10000 (-1)"},
		{"callers: { count: 100000, think: 1s }\n", "callers: { count: 100001, think: 1s }\n", "callers must be at most 100000"},
		{"callers: { count: 0 }\n", "callers: { count: -1, think: 1s }\n", "callers must be at most 100000"},
		{"callers: { count: 1, think: 1ms }\n", "callers: { count: 1 }\n", "with a time to think > 0 (1, 0s)"},
		{"callers: { count: 1, think: 1ms }\n", "callers: { count: 1, think: -1ms }\n", "with a time to think > 0 (1, -1ms)"},
		{"callers: { count: 1, think: 1us }\n", "callers: { count: 1, think: 100ns }\n", "arrivals, at most 50000000"},
		{"tenants: { count: 1000000 }\n", "tenants: { count: 1000001 }\n", "tenants.count must be at most 1000000 (1000001)"},
		{"tenants: { noisy: 0 }\n", "tenants: { noisy: -1 }\n", "tenants.noisy must be >= 0 (-1)"}, // it hid as much of the load from the bound on arrivals
		{"bursts: [{ at: 5s, every: 1s, requests: 1000000 }]\n", "bursts: [{ at: 5s, every: 1ms, requests: 1000000 }]\n", "arrivals, at most 50000000"},
		{"bursts: [{ at: 5s, requests: 1000000 }, { at: 5s, every: 6s, requests: 1000000 }]\n", "bursts: [{ at: 0s, every: 100ms, requests: 500000 }]\n", "arrivals, at most 50000000"},
		{"toldOthers: true\n", "toldOthers: true\ntold: true\n", "toldOthers excludes told and toldAs"},
		{"told: true\ntoldAs: 8\n", "toldOthers: true\ntoldAs: 8\n", "toldOthers excludes told and toldAs"},
		{"variants: [{ name: a, backend: { workers: 1 } }]\n", "variants: [{ name: a, backend: { workers: 0 } }]\n", "variant a: backend.workers must be in [1, 10000] (0)"},
		{"variants: [{ name: a, timeout: 1ns }]\n", "variants: [{ name: a, timeout: 0s }]\n", "variant a: timeout must be > 0 (0s)"},
		{"variants: [{ name: a, for: 20s }]\n", "variants: [{ name: a, for: 9s }]\n", "variant a: window all must lie within the run (0s to 10s)"},
		{"variants: [{ name: a }]\n", "variants: [{ timeout: 1s }]\n", `variants must have names of their own ("")`},
		{"share: one\n", "share: One\n", "share must be own or one (One)"},
		{"share: own\n", "share: all\n", "share must be own or one (all)"},
		{"reloadEvery: 10us\n", "reloadEvery: 9us\n", "reloadEvery must be at least a millionth of the run (9µs)"},
		{"pauses: { every: 10us }\n", "pauses: { every: 9us }\n", "pauses.every must be at least a millionth"},
		{"arrivals: { high: 1.5, on: 5us, off: 5us }\n", "arrivals: { high: 1.5, on: 4us, off: 5us }\n", "arrivals.on + off must be at least a millionth"},
		{"pauses: { every: 1s, for: 1s }\n", "pauses: { every: 1s, for: 1001ms }\n", "pauses must be shorter than the time between them (1.001s)"},
		{"pauses: { every: 0s }\n", "pauses: { every: -1s, for: -2s }\n", "pauses must be shorter"},
		{"clients: { patience: { least: 1s, most: 1s } }\n", "clients: { patience: { least: 1001ms, most: 1s } }\n", "clients.patience must go from more than nothing"},
		{"clients: { patience: { least: 1ns, most: 1s } }\n", "clients: { patience: { most: 1s } }\n", "clients.patience must go from more than nothing"},
		{"clients: { policy: naive, retries: -1, deadline: 1ns }\n", "clients: { policy: naive, retries: -1 }\n", "clients.deadline must be > 0 where retries have no bound (-1)"},
		{"clients: { policy: naive, retries: 0 }\n", "clients: { policy: naive, retries: 1, budget: true }\n", "clients.budget needs a policy that has one (naive)"},
	} {
		if _, err := scenario.Parse([]byte(smallest + tc.on)); err != nil {
			t.Errorf("%q: %v; want it taken", tc.on, err)
		}
		if _, err := scenario.Parse([]byte(smallest + tc.beyond)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v; want %q in it", tc.beyond, err, tc.want)
		}
	}
}

// What a run is made of has its bounds too: its length, its windows, its load, and
// how many requests come of all that.
func TestBoundsOfARun(t *testing.T) {
	const endless = "a run would have"
	for _, tc := range []struct {
		replace, on, beyond string
		more                string
		want                string
	}{
		{"name: x", "name: y", "name: ''", "", "name and about must not be empty"},
		{"about: y", "about: x", "about: ''", "", "name and about must not be empty"},
		{"for: 10s", "for: 48h", "for: 48h1ns", "scale: 0.01\n", "for must be in (0, 48h] (48h0m0.000000001s)"},
		{"for: 10s", "for: 10s", "for: 0s", "", "for must be in (0, 48h] (0s)"},
		{"to: 10s", "to: 10s", "to: 10001ms", "", "window all must lie within the run (0s to 10.001s)"},
		{"to: 10s", "to: 1ns", "to: 0s", "", "window all must lie within the run (0s to 0s)"},
		{"from: 0s", "from: 9s", "from: 10s", "", "window all must lie within the run (10s to 10s)"},
		{"from: 0s", "from: 0s", "from: -1s", "", "window all must lie within the run (-1s to 10s)"},
		{"windows: [{ name: all, from: 0s, to: 10s }]", "windows: [{ name: w, from: 0s, to: 10s }]", "windows: []", "", "at least one window must be measured"},
		{"load: [{ at: 0s, load: 1 }]", "load: [{ at: 0s, load: 1 }]", "load: []", "", "load must begin at 0s"},
		{
			"load: [{ at: 0s, load: 1 }]", "load: [{ at: 0s, load: 1 }, { at: 2s, load: 2, over: 2s }, { at: 4s, load: 1 }]",
			"load: [{ at: 0s, load: 1 }, { at: 2s, load: 2, over: 2001ms }, { at: 4s, load: 1 }]", "", "load: a ramp must end before the next step (4s)",
		},
		{"load: [{ at: 0s, load: 1 }]", "load: [{ at: 0s, load: 1 }, { at: 1s, load: 1 }]", "load: [{ at: 0s, load: 1 }, { at: 2s, load: 1 }, { at: 1s, load: 1 }]", "", "load must be in order of time"},
		{"load: [{ at: 0s, load: 1 }]", "callers: { count: 1, think: 1s }", "callers: { count: 0, think: 1s }", "", "load must begin at 0s"},
		// 800 a second at a load of 1: 50 million requests are 62,500 seconds of it.
		{"load: 1", "load: 6250", "load: 6251", "", endless},
		{"load: 1", "load: 6000", "load: 6001", "tenants: { noisy: 250 }\n", endless},
		{"load: [{ at: 0s, load: 1 }]", "load: [{ at: 0s, load: 0 }, { at: 9s, load: 62500 }]", "load: [{ at: 0s, load: 0 }, { at: 8s, load: 62500 }]", "", endless},
		{"load: [{ at: 0s, load: 1 }]", "load: [{ at: 0s, load: 62500 }, { at: 1s, load: 0 }]", "load: [{ at: 0s, load: 62500 }, { at: 1s, load: 1 }]", "", endless},
		{"load: [{ at: 0s, load: 1 }]", "load: [{ at: 0s, load: 62500 }, { at: 1s, load: -9 }]", "load: [{ at: 0s, load: 62501 }, { at: 1s, load: -9 }]", "", endless},
	} {
		at := func(with string) error {
			_, err := scenario.Parse([]byte(strings.Replace(smallest, tc.replace, with, 1) + tc.more))
			return err
		}
		if err := at(tc.on); err != nil {
			t.Errorf("%s: %v; want it taken", tc.on, err)
		}
		if err := at(tc.beyond); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q in it", tc.beyond, err, tc.want)
		}
	}
}
