package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/config"
)

// judge compares what is said of whole texts, each with an ingress behind it.
func judge(t *testing.T, all map[string]string) {
	t.Helper()
	for text, want := range all {
		got := problemsOf(t, text+"\n"+one("http", ""))
		if said := strings.Join(got, "\n"); len(got) > 1 || (want == "") != (said == "") || !strings.Contains(said, want) {
			t.Errorf("%s: %q; want %q", text, got, want)
		}
	}
}

// What gates share they share through somebody, for long enough, and it is there to
// be shared.
func TestFleet(t *testing.T) {
	judge(t, map[string]string{
		`fleet: { redis: { addresses: "r:6379" } }`:                                             "",
		`fleet: { redis: { addresses: ["r1:1", "r2:2", "[::1]:3"], cluster: true } }`:           "",
		`fleet: { redis: { addresses: "r:6379", master: m } }`:                                  "",
		`fleet: { redis: { addresses: "r:6379", master: m, cluster: true } }`:                   "fleet.redis.master: excludes cluster: sentinels watch over one server (m)",
		`fleet: { redis: { addresses: r } }`:                                                    "fleet.redis.addresses[0]: must be host:port (r)",
		`fleet: { group: "a b" }`:                                                               "fleet.group: may hold letters, digits, dot, dash and underscore only (a b)",
		`fleet: { interval: 1s, lease: 2s }`:                                                    "",
		`fleet: { interval: 1s, lease: 1999ms }`:                                                "fleet.lease: must be at least twice the interval",
		`fleet: { redis: { addresses: "r:1", tls: { enabled: true, certFile: c, keyFile: k }}}`: "",
		`fleet: { redis: { addresses: "r:1", tls: { enabled: true, keyFile: k }}}`:              "fleet.redis.tls.certFile: needs both certFile and keyFile",
	})
	for _, place := range []string{
		"requests: { shared: true%s }", "connections: { shared: true%s }",
		"partitions: { by: client, default: { shared: true%s } }", "partitions: { by: client, named: [{ name: n, shared: true%s }] }",
	} {
		for more, want := range map[string]string{", rate: 5": "", "": "shared: needs a rate (true)"} {
			ingress := one("http", ", "+fmt.Sprintf(place, more))
			if got := strings.Join(problemsOf(t, "fleet: { redis: { addresses: \"r:1\" } }\n"+ingress), "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
				t.Errorf("%s with a group: %q; want %q", fmt.Sprintf(place, more), got, want)
			}
			if got := strings.Join(problemsOf(t, ingress), "\n"); !strings.Contains(got, "shared: needs fleet.redis.addresses (true)") {
				t.Errorf("%s without a group: %q; want it asked for", fmt.Sprintf(place, more), got)
			}
		}
	}
}

// Gates are counted, or auto says that nobody can; a file in which that means nothing
// is refused. A patch is not: who takes knee away in the night cannot change gates.
func TestGates(t *testing.T) {
	const fixed, knee = "{ algorithm: fixed }", "{ algorithm: knee }"
	named := func(share, form, other string) string {
		return ", partitions: { share: " + share + ", by: client, default: { limit: " + form + " }, named: [{ name: n, limit: " + other + " }] }"
	}
	const none = "ingresses[0].gates: means nothing without a limit of the algorithm knee; leave it out (auto)"
	for more, want := range map[string]string{
		", gates: 8":       "",
		", gates: auto":    "",
		`, gates: "8"`:     "",
		", gates: 0":       "ingresses[0].gates: must be at least 1 (0)",
		", gates: -1":      "ingresses[0].gates: must be at least 1 (-1)",
		", gates: 10001":   "ingresses[0].gates: must be at most 10000 (10001)",
		", gates: automat": "ingresses[0].gates: must be a whole number or auto (automat)",
		", gates: 1.5":     "ingresses[0].gates: must be a whole number or auto (1.5)",
		", gates: [2]":     "ingresses[0].gates: must be one value, not a list",
		", gates: auto" + named("own", fixed, fixed): none,
		", gates: auto" + named("own", fixed, knee):  "",
		", gates: auto" + named("own", knee, fixed):  "",
		", gates: auto" + named("one", fixed, knee):  none,
		", gates: 8" + named("own", fixed, fixed):    "",
	} {
		if got := strings.Join(problemsOf(t, one("http", more)), "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q; want %q", more, got, want)
		}
	}
	c := mustParse(t, one("http", ""), "ADMITD_INGRESSES__0__GATES=auto")
	if c.Ingresses[0].Gates != config.Auto {
		t.Errorf("gates = %v by the environment; want auto", c.Ingresses[0].Gates)
	}
	next, err := c.Patch("a", []byte("partitions: { default: { limit: { algorithm: fixed } } }"))
	if err != nil || next.Ingresses[0].Gates != config.Auto {
		t.Errorf("a patch to another algorithm: %v; want it to hold", err)
	}
}

// Those who ask have a listener that is theirs, and a token that is not the
// operators'.
func TestDecisionsListener(t *testing.T) {
	judge(t, map[string]string{
		`decisions: { listen: "127.0.0.1:9" }`:                                                              "",
		`decisions: { listen: "0.0.0.0:9", tokenFile: /t }`:                                                 "",
		`decisions: { listen: "0.0.0.0:9", insecure: true }`:                                                "",
		`decisions: { listen: "0.0.0.0:9", tls: { certFile: c, keyFile: k, clientCAFile: a } }`:             "",
		`decisions: { listen: "0.0.0.0:9", tls: { certFile: c, keyFile: k } }`:                              "is not a loopback address: set decisions.tokenFile",
		`decisions: { listen: "0.0.0.0:9" }`:                                                                "is not a loopback address: set decisions.tokenFile",
		`decisions: { listen: "nowhere" }`:                                                                  "decisions.listen: must be host:port (nowhere)",
		"admin: { tokenFile: /t }\ndecisions: { listen: \"127.0.0.1:9\", tokenFile: /t }":                   "is admin.tokenFile too: who asks for permits could switch the gate off",
		"admin: { listen: \"127.0.0.1:9\" }\ndecisions: { listen: \"127.0.0.1:9\" }":                        "decisions.listen: clashes with admin.listen 127.0.0.1:9",
		"admin: { tokenFile: /t }\ndecisions: { tokenFile: /t }":                                            "", // nobody listens
		"admin: { listen: \"0.0.0.0:9462\", insecure: true }\ndecisions: { tls: { clientCAFile: ca.pem } }": "decisions.tls.clientCAFile: needs certFile and keyFile",
	})
}

// A signal has what its source needs, in the form of that source, and shows no
// password to who may read the configuration.
func TestTunerSources(t *testing.T) {
	const signal = "tuner: { signals: [{ name: s, source: %s }] }"
	for keys, want := range map[string]string{
		"host, metric: psi_io":                                            "",
		"host, metric: gpu":                                               "metric: must be cpu, psi_cpu",
		"host":                                                            "metric: is required",
		"gate, ingress: a, metric: p99":                                   "",
		"gate, ingress: b, metric: p99":                                   "ingress: is not the name of an ingress (b)",
		"gate, ingress: a, metric: p98":                                   "metric: must be p50, p99",
		`scrape, url: "http://h:1/metrics", metric: lag`:                  "",
		`scrape, url: "h:1", metric: lag`:                                 "url: must be a URL, such as http://127.0.0.1:9090",
		`prometheus, url: "https://h", query: up`:                         "",
		`prometheus, url: "mongodb://h", query: up`:                       "url: must be a URL, such as http://127.0.0.1:9090",
		`http, url: "http://u:p@h:1", path: lag`:                          "url: must not hold a password, which belongs in a file",
		`http, url: "http://u@h:1", path: lag`:                            "",
		`mongodb, url: "mongodb+srv://h", command: serverStatus, path: p`: "",
		`mongodb, url: "http://h:1", command: serverStatus, path: p`:      "url: must be a URL, such as mongodb://127.0.0.1:9090",
		`postgres, url: "postgresql://h/db", query: q`:                    "",
		"postgres, urlFile: /u, query: q":                                 "",
		`postgres, url: "postgres://h", urlFile: /u, query: q`:            "urlFile: excludes url (/u)",
		"postgres, query: q":                                              "url: is required",
		"host, metric: cpu, min: 1, max: 1":                               "",
		"host, metric: cpu, min: 2, max: 1":                               "min: must be at most max (2)",
	} {
		judge(t, map[string]string{fmt.Sprintf(signal, keys): want})
	}
}

// A policy has what its kind needs, in an order that makes sense.
func TestTunerPolicies(t *testing.T) {
	const policy = "tuner: { signals: [{ name: s, source: host, metric: cpu }], policies: [{ name: p, adjust: a.requests.rate, %s }] }"
	for keys, want := range map[string]string{
		"kind: threshold, step: 0.5, signal: s, above: 2, below: 2, min: 1, max: 1":                               "",
		"kind: threshold, step: 0.5, signal: s, above: 1, below: 2, min: 1, max: 9":                               "below: must be at most above (2)",
		"kind: threshold, step: 0.5, signal: s, above: 2, below: 1, min: 9, max: 8":                               "min: must be at most max (9)",
		"kind: threshold, step: 0.5, signal: other, above: 2, below: 1, min: 1, max: 9":                           "signal: is not the name of a signal (other)",
		"kind: target, step: 0.5, signal: s, target: 0.5, min: 1, max: 9":                                         "",
		"kind: schedule, min: 1, max: 9, hours: [{ from: \"08:00\", to: \"24:00\", bound: 3 }]":                   "",
		"kind: schedule, min: 1, max: 9, zone: UTC, hours: [{ from: \"8h\", to: \"09:00\", bound: 3 }]":           "hours[0].from: is not a time of the day, such as 08:00 (8h)",
		"kind: schedule, min: 1, max: 9, zone: UTC, hours: [{ from: \"08:60\", to: \"09:00\", bound: 3 }]":        "hours[0].from: is not a time of the day",
		"kind: schedule, min: 1, max: 9, zone: Mars/Base, hours: [{ from: \"08:00\", to: \"09:00\", bound: 3 }]":  "zone: is not a time zone, such as Europe/Berlin (Mars/Base)",
		"kind: schedule, min: 1, max: 9, hours: [{ days: [mon, sat], from: \"08:00\", to: \"09:00\", bound: 3 }]": "",
	} {
		judge(t, map[string]string{fmt.Sprintf(policy, keys): want})
	}
}
