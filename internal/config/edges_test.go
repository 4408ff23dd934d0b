package config_test

import (
	"fmt"
	"strings"
	"testing"
)

// Who goes first: rules that match somebody, by what the protocol knows of a request.
func TestClassRules(t *testing.T) {
	const rule = "classes: { rules: [{ class: sheddable, %s }] }"
	forms(t, "http", rule, []form{
		{`operations: ["GET /a"]`, ""},
		{`operations: ["FETCH /a"]`, "must begin with a method"},
		{`partitions: [a, "b*", "*"]`, ""},
		{`partitions: ["a*b"]`, "may hold * at its end only"},
		{`partitions: ["*b"]`, "may hold * at its end only"},
		{`users: [eve]`, "belongs to protocol mongodb or postgres only"},
		{`operations: []`, "matches every request: write default instead"},
	})
	forms(t, "mongodb", rule, []form{{"users: [eve]", ""}, {"operations: [find], applications: [batch]", ""}})
	forms(t, "pulsar", rule, []form{{"operations: [SEND]", "knows no operations: protocol pulsar"}, {"partitions: [a]", ""}})
	forms(t, "http", "classes: { by: [%s] }", []form{{`"header:X", "header:Y"`, ""}, {`"header:X", "header:X"`, "is listed twice"}})
	forms(t, "http", `classes: { by: ["header:X"], trust: [%s] }`, []form{
		{`"10.0.0.0/8", "10.0.0.1", "2001:db8::/32", "::1"`, ""},
		{`"10.0.0.0/33"`, "is no CIDR"},
		{`"2001:db8::/129"`, "is no CIDR"},
		{`"team/batch"`, ""}, // an application
		{`""`, "must not be empty"},
	})
}

// What becomes a label has a name of letters, digits and little else, wherever it is
// written, and of at most 64 characters.
func TestNamesEverywhere(t *testing.T) {
	const (
		topic  = "pulsar: { topics: [{ name: %s, match: persistent://t/n/x }] }"
		group  = "pulsar: { resourceGroups: [{ name: %s, match: [persistent://t/n/x] }] }"
		letter = "may hold letters, digits, dot, dash and underscore only"
	)
	long := strings.Repeat("x", 64)
	names := []form{
		{"a", ""},
		{"0", ""},
		{`"9.b-c_D"`, ""},
		{long, ""},
		{long + "x", "is longer than 64 characters"},
		{`"a b"`, letter},
		{`"a/b"`, letter},
		{`"ä"`, letter},
		{`"-a"`, "must begin with a letter or a digit"},
		{`".a"`, "must begin with a letter or a digit"},
		{`""`, "must not be empty"},
	}
	names[1].text = `"0"`
	forms(t, "pulsar", topic, names)
	forms(t, "pulsar", group, names)
	signal := func(place string) func(f form) {
		return func(f form) {
			t.Helper()
			got := problemsOf(t, one("http", "")+fmt.Sprintf(place, f.text))
			if said := strings.Join(got, "\n"); f.want == "" && len(got) > 0 || f.want != "" && (len(got) != 1 || !strings.Contains(said, f.want)) {
				t.Errorf(place+": %q; want %q", f.text, got, f.want)
			}
		}
	}
	for _, f := range names {
		signal("tuner: { signals: [{ name: %s, source: host, metric: cpu }] }\n")(f)
		signal("tuner: { signals: [{ name: s, source: host, metric: cpu }], policies: [{ name: %s, signal: s, adjust: a.requests.rate, above: 1, below: 0, min: 1, max: 9, step: 0.5 }] }\n")(f)
	}
}

// A required key that says nothing is missed as one that is not there: a policy
// with signal "" was taken, and the tuner panicked every second.
func TestRequiredIsNotEmpty(t *testing.T) {
	const (
		policy = ", policies: [{ name: p, signal: %s, adjust: %s, above: 1, below: 0, min: 1, max: 9, step: 0.5 }] }\n"
		source = "tuner: { signals: [{ name: s, source: "
	)
	for text, key := range map[string]string{
		source + `host, metric: "" }] }` + "\n":                                                                                  "signals[0].metric",
		source + `gate, metric: "", ingress: a }] }` + "\n":                                                                      "signals[0].metric",
		source + `gate, metric: p99, ingress: "" }] }` + "\n":                                                                    "signals[0].ingress",
		source + `http, url: "http://h", path: "" }] }` + "\n":                                                                   "signals[0].path",
		source + `prometheus, url: "http://h", query: "" }] }` + "\n":                                                            "signals[0].query",
		source + `host, metric: cpu }]` + fmt.Sprintf(policy, `""`, "a.requests.rate"):                                           "policies[0].signal",
		source + `host, metric: cpu }]` + fmt.Sprintf(policy, "s", `""`):                                                         "policies[0].adjust",
		source + `host, metric: cpu }]` + fmt.Sprintf(policy, "s", "a.requests.rate") + "shadow: [{ name: x, ingress: \"\" }]\n": "shadow[0].ingress",
	} {
		got := problemsOf(t, one("http", "")+text)
		if len(got) != 1 || !strings.HasSuffix(got[0], key+": must not be empty") {
			t.Errorf("%s: %q; want that %s must not be empty", text, got, key)
		}
	}
}

// A signal that would never be trusted, or that is not what it seems, is refused: a
// reading that is too old before the next one comes, and the whole machine's disk
// as that of a control group.
func TestSignalsThatMislead(t *testing.T) {
	for signal, want := range map[string]string{
		"source: host, metric: cpu, every: 30s":                              "",
		"source: host, metric: cpu, every: 31s":                              "maxAge: must be at least every: ",
		"source: host, metric: cpu, every: 1m, maxAge: 59s":                  "maxAge: must be at least every: ",
		"source: gate, ingress: a, metric: p99, maxAge: 30s":                 "",
		"source: gate, ingress: a, metric: p99, maxAge: 29s":                 "maxAge: must be at least 30s, a twentieth of tuner.trial.for: ",
		"source: host, metric: memory, cgroup: /sys/fs/cgroup/db.service":    "",
		"source: host, metric: psi_io, cgroup: /sys/fs/cgroup/db.service":    "",
		"source: host, metric: disk, cgroup: /sys/fs/cgroup/db.service":      "metric: does not go with cgroup: ",
		"source: host, metric: load, cgroup: /sys/fs/cgroup/db.service":      "metric: does not go with cgroup: ",
		"source: host, metric: network, cgroup: /sys/fs/cgroup/db.service":   "metric: does not go with cgroup: ",
		"source: host, metric: run_queue, cgroup: /sys/fs/cgroup/db.service": "metric: does not go with cgroup: ",
	} {
		got := problemsOf(t, one("http", "")+"tuner: { trial: { for: 10m }, signals: [{ name: s, "+signal+" }] }\n")
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], "tuner.signals[0]."+want)) {
			t.Errorf("%s: %q; want %q", signal, got, want)
		}
	}
}

// Each relation of two numbers takes them when they are equal.
func TestRelationsTakeEquals(t *testing.T) {
	const (
		signal = "tuner: { signals: [{ name: s, source: host, metric: cpu, %s }] }\n"
		policy = "tuner: { signals: [{ name: s, source: host, metric: cpu }], policies: [{ name: p, signal: s, adjust: a.requests.rate, step: 0.9, %s }] }\n"
	)
	for _, tc := range []struct{ place, equal, wrong, want string }{
		{signal, "min: 3, max: 3", "min: 4, max: 3", "tuner.signals[0].min: must be at most max (4)"},
		{policy, "above: 1, below: 0, min: 3, max: 3", "above: 1, below: 0, min: 4, max: 3", "tuner.policies[0].min: must be at most max (4)"},
		{policy, "above: 2, below: 2, min: 1, max: 9", "above: 2, below: 3, min: 1, max: 9", "tuner.policies[0].below: must be at most above (3)"},
	} {
		if got := problemsOf(t, one("http", "")+fmt.Sprintf(tc.place, tc.equal)); len(got) != 0 {
			t.Errorf("%s: %q; want it taken", tc.equal, got)
		}
		if got := problemsOf(t, one("http", "")+fmt.Sprintf(tc.place, tc.wrong)); len(got) != 1 || !strings.HasSuffix(got[0], tc.want) {
			t.Errorf("%s: %q; want %s", tc.wrong, got, tc.want)
		}
	}
	for _, tc := range []struct{ protocol, equal, wrong, want string }{
		{"pulsar", "pulsar: { maxHeldBytes: 64MiB, maxGateHeldBytes: 64MiB }", "pulsar: { maxHeldBytes: 65MiB, maxGateHeldBytes: 64MiB }", "must be at most maxGateHeldBytes (65MiB)"},
		{"postgres", "connections: { maxOpen: 10, reserved: 9 }", "connections: { maxOpen: 10, reserved: 10 }", "must be less than maxOpen (10)"},
		{"postgres", "connections: { maxOpen: 10, reserved: 0 }", "connections: { maxOpen: 10, reserved: 11 }", "must be less than maxOpen (11)"},
		{"http", "partitions: { default: { limit: { minLimit: 9, initialLimit: 9 } } }", "partitions: { default: { limit: { minLimit: 9, initialLimit: 8 } } }", "must be at least minLimit (8)"},
		{"http", "partitions: { default: { limit: { initialLimit: 9, maxLimit: 9 } } }", "partitions: { default: { limit: { initialLimit: 10, maxLimit: 9 } } }", "must be at most maxLimit (10)"},
		{"http", "partitions: { default: { limit: { minLimit: 20, maxLimit: 20 } } }", "partitions: { default: { limit: { minLimit: 21, maxLimit: 20 } } }", "must be at most maxLimit (21)"},
	} {
		forms(t, tc.protocol, "%s", []form{{tc.equal, ""}, {tc.wrong, tc.want}})
	}
}

// Where traces go is a URL of a host, over HTTP or HTTPS.
func TestTracingEndpoint(t *testing.T) {
	for endpoint, good := range map[string]bool{
		"": true, "http://127.0.0.1:4318": true, "https://traces.example": true, "http://h/v1/traces": true,
		"h:4318": false, "ftp://h": false, "grpc://h:4317": false, "http://": false, "//h": false, "http//h": false, "https:h": false,
	} {
		got := problemsOf(t, fmt.Sprintf("tracing: { endpoint: %q }\n", endpoint)+one("http", ""))
		if refused := len(got) == 1 && strings.Contains(got[0], "tracing.endpoint: must be a URL, such as http://127.0.0.1:4318"); refused == good || len(got) > 1 {
			t.Errorf("endpoint %q: %q; want it taken: %v", endpoint, got, good)
		}
	}
}

// A schedule is in hours of a zone that exists; the day may end with it.
func TestHoursOfASchedule(t *testing.T) {
	const place = "tuner: { policies: [{ name: p, kind: schedule, adjust: a.requests.rate, min: 1, max: 9, zone: %q, hours: [{ from: %q, to: %q, bound: 5 }] }] }\n"
	for _, tc := range []struct{ zone, from, to, want string }{
		{"Europe/Berlin", "00:00", "24:00", ""},
		{"UTC", "08:00", "23:59", ""},
		{"Mars/Olympus", "08:00", "12:00", "zone: is not a time zone, such as Europe/Berlin (Mars/Olympus)"},
		{"UTC", "08:60", "12:00", "hours[0].from: is not a time of the day, such as 08:00 (08:60)"},
		{"UTC", "08:00", "24:01", "hours[0].to: is not a time of the day, such as 08:00 (24:01)"},
		{"UTC", "8 am", "12:00", "hours[0].from: is not a time of the day, such as 08:00 (8 am)"},
	} {
		got := problemsOf(t, one("http", "")+fmt.Sprintf(place, tc.zone, tc.from, tc.to))
		if said := strings.Join(got, "\n"); tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.HasSuffix(said, tc.want)) {
			t.Errorf("%s to %s in %s: %q; want %q", tc.from, tc.to, tc.zone, got, tc.want)
		}
	}
}

// Further servers are told as the first one is.
func TestMoreBackends(t *testing.T) {
	forms(t, "postgres", "postgres: { moreBackends: [%s] }", []form{
		{`"b:5432", "[::1]:5432"`, ""}, {"b", "must be host:port"}, {`":5432"`, "must name a host and a port"}, {`"b:0"`, "must name a host and a port"},
	})
	forms(t, "mongodb", "mongodb: { topology: { mode: loadBalanced }, moreBackends: [%s] }", []form{
		{`"b:27017"`, ""}, {"b", "must be host:port"}, {`":27017"`, "must name a host and a port"},
	})
}

// A port is written as a number is, without what a parser would let pass.
func TestPorts(t *testing.T) {
	for port, good := range map[string]bool{
		"0": true, "1": true, "65535": true, "65536": false, "080": false, "+80": false, "-1": false, "": false, "http": false, "8 0": false, "0x50": false, "1e3": false,
	} {
		got := problemsOf(t, fmt.Sprintf("admin: { listen: \"127.0.0.1:%s\" }\n", port)+strings.Replace(one("http", ""), "127.0.0.1:1", "127.0.0.2:1", 1))
		if refused := len(got) == 1 && strings.Contains(got[0], "must have a port from 0 to 65535"); refused == good || len(got) > 1 {
			t.Errorf("port %q: %q; want it taken: %v", port, got, good)
		}
	}
}

// A pattern of partitions has one star, at its end.
func TestPartitionPatterns(t *testing.T) {
	forms(t, "http", "partitions: { by: client, named: [{ name: n, match: %s }] }", []form{
		{"a", ""}, {`"a*"`, ""}, {`"*"`, ""}, {`"*a"`, "may hold * at its end only"}, {`"a*b*"`, "may hold * at its end only"}, {`"**"`, "may hold * at its end only"},
	})
}

// Brokers that producers may be sent to are named with a port that there is, or with
// any.
func TestBrokerPatterns(t *testing.T) {
	forms(t, "pulsar", "pulsar: { brokers: [%s] }", []form{
		{`"b:6650"`, ""},
		{`"*.b.example:6650"`, ""},
		{`"b:*"`, ""},
		{`"b:65535"`, ""},
		{`"b:65536"`, "must be host:port"},
		{`"b:"`, "must be host:port"},
		{`"b"`, "must be host:port"},
		{`"*:6650"`, "must be host:port"},
		{`"b.*:6650"`, "must be host:port"},
		{`"[::1]:6650"`, ""},
	})
}

// A host name is as long as DNS lets it be.
func TestLongHostNames(t *testing.T) {
	name := func(n int) string { return strings.Repeat("x.", n/2) + strings.Repeat("y", 1+n%2) } // of n+1 letters for an even n, n+2 for an odd one
	for n, good := range map[int]bool{252: true, 253: false} {
		got := problemsOf(t, strings.Replace(one("http", ""), "127.0.0.1:1", name(n)+":1", 1))
		if refused := strings.Contains(strings.Join(got, "\n"), "must begin with an address or a host name"); refused == good {
			t.Errorf("a host name of %d letters: %.60q; want it taken: %v", len(name(n)), got, good)
		}
	}
}

// A rate of less than one a second is one that can be shared.
func TestSlowRatesAreShared(t *testing.T) {
	for _, rate := range []string{"0.5", "1", "1000"} {
		text := "fleet: { redis: { addresses: \"r:1\" } }\n" + one("http", ", requests: { shared: true, rate: "+rate+" }")
		if got := problemsOf(t, text); len(got) > 0 {
			t.Errorf("a shared rate of %s: %q", rate, got)
		}
	}
}

// An objective of any length sets what aimd takes for a drop.
func TestShortObjectives(t *testing.T) {
	for objective, want := range map[string]string{"10ms": "8ms", "1ms": "1ms", "10s": "8s"} {
		l := mustParse(t, one("http", ", objective: "+objective+", partitions: { default: { limit: { algorithm: aimd } } }")).Ingresses[0].Partitions.Default.Limit
		if got := l.RequestTimeout.String(); got != want {
			t.Errorf("with an objective of %s a drop is what takes %s; want %s", objective, got, want)
		}
	}
}
