package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/config"
)

// form is a text in a place of the configuration, and what is said of it there; "" =
// it is taken.
type form struct{ text, want string }

// forms judges texts that are put in place of %s, a key of an ingress, a flow
// mapping or list included.
func forms(t *testing.T, protocol, place string, all []form) {
	t.Helper()
	for _, f := range all {
		got := problemsOf(t, one(protocol, ", "+fmt.Sprintf(place, f.text)))
		switch said := strings.Join(got, "\n"); {
		case f.want == "" && len(got) > 0:
			t.Errorf("%s, %s: refused: %s", protocol, fmt.Sprintf(place, f.text), said)
		case f.want != "" && (len(got) != 1 || !strings.Contains(said, f.want)):
			t.Errorf("%s, %s: %q; want %s", protocol, fmt.Sprintf(place, f.text), got, f.want)
		}
	}
}

// What identifies a partition, by protocol: each kind that there is, with the
// argument that it takes and without.
func TestPartsOfKeys(t *testing.T) {
	const by = "partitions: { by: [%s] }"
	forms(t, "http", by, []form{
		{`"header:X-Tenant"`, ""},
		{`"header:x_tenant.9"`, ""},
		{`"header:"`, "needs the name of a header"},
		{`"header:X Tenant"`, "needs the name of a header"},
		{`"header:X-Mandant-ü"`, "needs the name of a header"},
		{`"query:tenant"`, ""},
		{`"query:"`, "needs a name, such as query:tenant"},
		{`path`, ""},
		{`"path:/v1/{tenant}/items"`, ""},
		{`"path:/v1/{a}/{b}"`, ""},
		{`"path:/internal/*"`, ""},
		{`"path:/"`, ""},
		{`"path:"`, "needs a path that begins with a slash"},
		{`"path:v1"`, "needs a path that begins with a slash"},
		{`"path:/a/*/b"`, "may hold * as its last segment only"},
		{`"path:/a*"`, "may hold * as its last segment only"},
		{`"path:/{}"`, "neither plain nor one {name}"},
		{`"path:/x{a}"`, "neither plain nor one {name}"},
		{`"path:/{a}/{a}"`, "holds {a} twice"},
		{`client`, ""},
		{`"client:24"`, ""},
		{`"client:56"`, ""},
		{`"client:129"`, "takes a prefix length from 1 to 128"},
		{`"client:"`, "takes a prefix length from 1 to 128"},
		{`"constant:all"`, ""},
		{`constant`, "needs a name, such as constant:tenant"},
		{`client, path, "query:q", "header:H", "header:I", "header:J", "header:K", "header:L"`, ""},
	})
	forms(t, "mongodb", by, []form{
		{"database, collection, command, application, driver, user, readPreference, comment", ""},
		{"client", ""},
		{`"client:1"`, ""},
		{`"client:128"`, ""},
		{`"client:0"`, "takes a prefix length from 1 to 128"},
		{`"client:129"`, "takes a prefix length from 1 to 128"},
		{`"client:"`, "takes a prefix length from 1 to 128"},
		{`"comment:x"`, "takes no argument"},
		{"topic", "must begin with database, collection"},
		{"user, user", "is listed twice"},
	})
	forms(t, "postgres", by, []form{
		{`database, user, application, "client:8", operation, "comment:route"`, ""},
		{`"comment:"`, "takes the name of a tag"},
		{`"comment:` + strings.Repeat("x", 255) + `"`, ""},
		{`"comment:` + strings.Repeat("x", 256) + `"`, "takes the name of a tag"},
		{"collection", "must begin with database, user"},
	})
	forms(t, "pulsar", by, []form{
		{"topic", ""},
		{"namespace", ""},
		{"tenant", ""},
		{"client", ""},
		{`"topic:x"`, "takes no argument"},
		{"topics", `did you mean "topic"?`},
	})
}

// What a class may be claimed with, by protocol.
func TestClaims(t *testing.T) {
	const by = "classes: { by: [%s] }"
	forms(t, "http", by, []form{
		{`"header:X-Class", "query:class", priority`, ""}, {`"priority:1"`, "takes no argument"}, {"comment", "must begin with header, query or priority"},
	})
	forms(t, "mongodb", by, []form{
		{"comment, application, readPreference", ""}, {"user", "must begin with comment, application or readPreference"},
	})
	forms(t, "postgres", by, []form{
		{`application, "comment:class"`, ""}, {"comment", "takes the name of a tag"}, {"user", "must begin with application or comment"},
	})
	forms(t, "pulsar", by, []form{
		{`producer, "metadata:class"`, ""}, {"metadata", "needs a name, such as metadata:tenant"}, {"topic", "must begin with metadata or producer"},
	})
}

// Operations are spelled as each protocol has them, classes of them in costs only.
func TestOperations(t *testing.T) {
	const cost, exempt = "cost: { byOperation: { %s: 2 } }", "requests: { exempt: { operations: [%s] } }"
	for _, place := range []string{cost, exempt} {
		forms(t, "http", place, []form{
			{`"/v1/{tenant}"`, ""},
			{`"/health"`, ""},
			{`"GET /health"`, ""},
			{`"TRACE /*"`, ""},
			{`"FETCH /health"`, "must begin with a method"},
			{`"GET  /health"`, "needs a path that begins with a slash"},
			{`"GET"`, "needs a path that begins with a slash"},
		})
		forms(t, "postgres", place, []form{
			{"select", ""}, {"ddl", ""}, {"other", ""}, {"SELECT", "must be select, insert"}, {"vacuum", "must be select, insert"},
		})
		forms(t, "mongodb", place, []form{{"find", ""}, {"aggregate", ""}, {`"a b"`, "is not the name of a command"}})
	}
	for _, class := range []string{"read", "write", "admin", "release", "other"} {
		forms(t, "mongodb", cost, []form{{class, ""}})
		forms(t, "mongodb", exempt, []form{{class, "is not the name of a command"}})
	}
	forms(t, "mongodb", exempt, []form{{`""`, "is not the name of a command"}, {strings.Repeat("x", 257), "is not the name of a command"}})
}

// Where requests go is written as each protocol writes it.
func TestBackends(t *testing.T) {
	for protocol, all := range map[string][]form{
		"http": {
			{"http://h:1", ""},
			{"https://h", ""},
			{"http://[::1]:9", ""},
			{"http://h:1/", ""},
			{"http://h:0", "must name a host and a port"},
			{"http://h:65536", "must have a port from 0 to 65535"},
			{"h:1", "must be a URL, such as http://127.0.0.1:9000"},
			{"http://", "must be a URL"},
			{"http://u:p@h:1", "must not hold a user or password"},
			{"http://h:1/a", "must end after the port"},
			{"http://h:1#f", "must end after the port"},
		},
		"mongodb":  {{"db:27017", ""}, {"[::1]:27017", ""}, {"db", "must be host:port"}, {":27017", "must name a host and a port"}, {"db:0", "must name a host and a port"}},
		"postgres": {{"db.example:5432", ""}, {"300.1.1.1:5432", "must begin with an address or a host name"}, {"postgres://db:5432", "must be host:port"}},
		"pulsar":   {{"pulsar://b:6650", ""}, {"pulsar+ssl://b:6651", ""}, {"b:6650", ""}, {"http://b:8080", "must be a URL, such as pulsar://127.0.0.1:9000"}},
	} {
		for _, f := range all {
			got := problemsOf(t, fmt.Sprintf("ingresses: [{ name: a, protocol: %s, listen: \"127.0.0.1:1\", backend: %q }]", protocol, f.text))
			if said := strings.Join(got, "\n"); (f.want == "") != (said == "") || !strings.Contains(said, f.want) {
				t.Errorf("%s: backend %s: %q; want %q", protocol, f.text, got, f.want)
			}
		}
	}
}

// Host names are those of DNS, and a mistyped address is none.
func TestHostNames(t *testing.T) {
	long := strings.Repeat("x", 63)
	for host, good := range map[string]bool{
		"gate": true, "gate.example": true, "gate.example.": true, "a-b.c_d": true, "4.example": true, "1.2.3.4": true, long + ".example": true,
		"127.0.0.300": false, "127.0.0": false, "-a": false, "a-": false, "a..b": false, "a b": false, "ü": false, long + "x": false,
		strings.Repeat(long+".", 4) + "a": false, "fe80::1": false,
	} {
		got := problemsOf(t, fmt.Sprintf("ingresses: [{ name: a, listen: %q, backend: \"http://h:1\" }]", host+":1"))
		if (len(got) == 0) != good {
			t.Errorf("listen: %.70s:1: %q; want it taken: %v", host, got, good)
		}
	}
}

// A PROXY header names the client, so that not everybody may send one: only from a
// network that is one's own does it go without saying who.
func TestWhoMaySendProxyHeaders(t *testing.T) {
	for listen, need := range map[string]bool{
		"127.0.0.1:1": false, "localhost:1": false, "10.1.2.3:1": false, "192.168.0.1:1": false, "[fd00::1]:1": false, "169.254.1.1:1": false,
		"0.0.0.0:1": true, ":1": true, "203.0.113.1:1": true, "gate.example:1": true,
	} {
		text := "ingresses: [{ name: a, listen: %q, backend: \"http://h:2\", proxyProtocol: true%s }]"
		got := problemsOf(t, fmt.Sprintf(text, listen, ""))
		if needs := strings.Contains(strings.Join(got, "\n"), "proxyProtocolFrom: is required"); needs != need || len(got) > 1 {
			t.Errorf("listen: %s: %q; want proxyProtocolFrom asked for: %v", listen, got, need)
		}
		if got := problemsOf(t, fmt.Sprintf(text, listen, ", proxyProtocolFrom: 203.0.113.7")); len(got) > 0 {
			t.Errorf("listen: %s, with proxyProtocolFrom: %q", listen, got)
		}
	}
}

// Certificates come in pairs, and TLS towards a backend is asked for by name or by
// the backend's scheme.
func TestTLSKeys(t *testing.T) {
	for _, f := range []struct{ protocol, keys, want string }{
		{"http", "tls: { certFile: c, keyFile: k }", ""},
		{"http", "tls: { certFile: c, keyFile: k, clientCAFile: a }", ""},
		{"http", "tls: { certFile: c }", "tls.keyFile: is required with certFile"},
		{"http", "tls: { keyFile: k }", "tls.certFile: is required with keyFile"},
		{"http", "tls: { clientCAFile: a }", "tls.clientCAFile: needs certFile and keyFile"},
		{"mongodb", "backendTLS: { enabled: true }", ""},
		{"mongodb", "backendTLS: { enabled: true, caFile: a, certFile: c, keyFile: k, serverName: s }", ""},
		{"mongodb", "backendTLS: { enabled: true, certFile: c }", "backendTLS.keyFile: is required with certFile"},
		{"mongodb", "backendTLS: { caFile: a }", "backendTLS.enabled: must be true, or the other keys of backendTLS be left out"},
		{"mongodb", "backendTLS: { serverName: s }", "backendTLS.enabled: must be true"},
		{"http", "backendTLS: { enabled: true }", "contradicts a backend that begins with http://"},
	} {
		got := problemsOf(t, one(f.protocol, ", "+f.keys))
		if said := strings.Join(got, "\n"); len(got) > 1 || (f.want == "") != (said == "") || !strings.Contains(said, f.want) {
			t.Errorf("%s, %s: %q; want %q", f.protocol, f.keys, got, f.want)
		}
	}
	for _, backend := range []string{"https://h:1", "pulsar+ssl://h:1"} {
		protocol, _, _ := strings.Cut(backend, "://")
		protocol = map[string]string{"https": "http", "pulsar+ssl": "pulsar"}[protocol]
		text := fmt.Sprintf("ingresses: [{ name: a, protocol: %s, listen: \"127.0.0.1:1\", backend: %q, backendTLS: { caFile: a } }]", protocol, backend)
		if got := problemsOf(t, text); len(got) > 0 {
			t.Errorf("%s: %q; the scheme asks for TLS", backend, got)
		}
	}
}

// What only some protocols have is refused in the others by name, never passed
// over.
func TestKeysOfSomeProtocols(t *testing.T) {
	for keys, has := range map[string][]string{
		"rejection: { status: 503 }":                          {"http"},
		"cost: { default: 2 }":                                {"http", "mongodb", "postgres"},
		"requests: { exempt: { cidrs: 10.0.0.0/8 } }":         {"http", "mongodb", "postgres"},
		"connections: { reserved: 3 }":                        {"postgres"},
		"requests: { unauthenticated: pass }":                 {"mongodb"},
		"classes: { rules: [{ users: u, class: critical }] }": {"mongodb", "postgres"},
		"backendTimeout: 3s":                                  {"http"},
		"http: {}":                                            {"http"},
		"mongodb: {}":                                         {"mongodb"},
		"postgres: {}":                                        {"postgres"},
		"pulsar: {}":                                          {"pulsar"},
	} {
		for _, protocol := range []string{"http", "mongodb", "postgres", "pulsar"} {
			got := problemsOf(t, one(protocol, ", "+keys))
			if taken := len(got) == 0; taken != slices.Contains(has, protocol) {
				t.Errorf("%s with %s: %q; want it taken by %q only", protocol, keys, got, has)
			}
			for _, line := range got {
				if !strings.Contains(line, "belong") || !strings.Contains(line, has[0]) {
					t.Errorf("%s with %s: %s; want it said to whom that belongs", protocol, keys, line)
				}
			}
		}
	}
}

// Topics and brokers are patterns with a star in its one place.
func TestPulsarPatterns(t *testing.T) {
	forms(t, "pulsar", "pulsar: { brokers: [%s] }", []form{
		{`"b1.example:6650"`, ""},
		{`"*.example:6650"`, ""},
		{`"b:*"`, ""},
		{`"[::1]:6650"`, ""},
		{`"10.0.0.1:6650"`, ""},
		{`"b"`, "must be host:port"},
		{`"*:6650"`, "must be host:port"},
		{`"b.*:6650"`, "must be host:port"},
		{`"b:x"`, "must be host:port"},
		{`":6650"`, "must be host:port"},
	})
	forms(t, "pulsar", "pulsar: { topics: [{ name: t, match: %s }] }", []form{
		{`"persistent://t/n/x"`, ""},
		{`"persistent://t/n/*"`, ""},
		{`"*"`, ""},
		{`"plain"`, ""},
		{`"persistent://t/n"`, "must be a full topic name"},
		{`"a*b"`, "may hold * at its end only"},
		{`"**"`, "may hold * at its end only"},
	})
	forms(t, "pulsar", "pulsar: { resourceGroups: [{ name: g, match: [%s] }] }", []form{
		{`"persistent://t/n/*", "x"`, ""}, {`""`, "must not be empty"}, {``, "needs at least one topic"},
	})
}

// Every member of a replica set has one address for clients, and only where the mode
// asks for them.
func TestMongoTopology(t *testing.T) {
	forms(t, "mongodb", "mongodb: { topology: { %s } }", []form{
		{"mode: direct", ""},
		{`mode: members, members: { "db1:27017": "g:1", "db2:27017": "g:2" }`, ""},
		{"mode: members", "is required for mode members"},
		{`members: { "db1:27017": "g:1" }`, "belongs to mode members only"},
		{`mode: members, members: { "db1": "g:1" }`, "must be host:port on both sides"},
		{`mode: members, members: { "db1:27017": "g" }`, "must be host:port"},
		{`mode: members, members: { "db1:27017": "g:0" }`, "must name a host and a port"},
		{`mode: members, members: { "db1:27017": "g:1", "db2:27017": "g:1" }`, "is the address for db1:27017 too"},
	})
	forms(t, "mongodb", "mongodb: { topology: { mode: loadBalanced }, moreBackends: [%s] }", []form{{`"m2:27017"`, ""}, {`"m2"`, "must be host:port"}})
	forms(t, "mongodb", "mongodb: { moreBackends: [%s] }", []form{{`"m2:27017"`, "belongs to topology mode loadBalanced only"}})
}

// The SQLSTATE of a refusal is one of failure, for a reason that there is.
func TestSQLStates(t *testing.T) {
	for _, reason := range config.Reasons() {
		forms(t, "postgres", "postgres: { sqlstate: { "+reason+": %s } }", []form{{`"57P03"`, ""}, {`"53400"`, ""}})
	}
	forms(t, "postgres", "postgres: { sqlstate: { shed: %s } }", []form{
		{`"5340"`, "must be five digits or capital letters"},
		{`"53a00"`, "must be five digits or capital letters"},
		{`"00000"`, "must be five digits or capital letters"},
		{`"534000"`, "must be five digits or capital letters"},
	})
	forms(t, "postgres", "postgres: { sqlstate: { %s: \"53000\" } }", []form{{"overload", "is no reason of a refusal"}})
}

// The bounds of a limit stand in an order, whatever the algorithm.
func TestOrderOfLimits(t *testing.T) {
	const limit = "partitions: { default: { limit: { algorithm: %s } } }"
	for _, algorithm := range []string{"knee", "aimd", "gradient", "gradient2"} {
		forms(t, "http", limit, []form{
			{algorithm + ", minLimit: 5, initialLimit: 5, maxLimit: 5", ""},
			{algorithm + ", maxLimit: 10", ""}, // nobody wrote an initialLimit
			{algorithm + ", minLimit: 30", ""},
			{algorithm + ", minLimit: 6, initialLimit: 5", "initialLimit: must be at least minLimit"},
			{algorithm + ", initialLimit: 9, maxLimit: 8", "initialLimit: must be at most maxLimit"},
			{algorithm + ", minLimit: 9, initialLimit: 8, maxLimit: 8", "minLimit: must be at most maxLimit"},
		})
	}
	forms(t, "http", limit, []form{
		{"vegas, alpha: 3, beta: 4", ""},
		{"vegas, alpha: 4, beta: 4", "alpha: must be below beta"},
		{"vegas, minLimit: 2", "does not belong to algorithm vegas"},
		{"fixed, limit: 1", ""},
		{"fixed, maxLimit: 3", "does not belong to algorithm fixed"},
		{"knee, window: { min: 2s, max: 2s }", ""},
		{"knee, window: { min: 2s, max: 1s }", "window.min: must be at most window.max"},
	})
}

// A named partition has the same form as the others, key by key: what one gains the
// other must too.
func TestNamedPartitionsHaveTheSameForm(t *testing.T) {
	const keys = "rate: 7, burstSeconds: 3, shared: true, weight: 4, maxShare: 0.5, queue: { depth: 9, maxWait: 2s }, limit: { algorithm: aimd, maxLimit: 44, backoffRatio: 0.7 }"
	in := mustParse(t, "fleet: { redis: { addresses: \"r:1\" } }\n"+one("http", ", partitions: { by: client, share: one, default: { "+keys+" }, named: [{ name: n, "+keys+" }] }")).Ingresses[0]
	named := in.Partitions.Named[0]
	if diff := cmp.Diff(in.Partitions.Default, named.Form()); diff != "" {
		t.Errorf("the form of a named partition (-default +named):\n%s", diff)
	}
}

// What nobody says of classes says nothing: all requests are equal, and every class
// has the floor that keeps it alive.
func TestClassesByDefault(t *testing.T) {
	for more, want := range map[string]struct {
		given bool
		floor map[string]float64
	}{
		"":                                  {false, map[string]float64{"critical": 0.01, "sheddable": 0.01}},
		", classes: { default: critical }":  {false, nil},
		", classes: { default: sheddable }": {true, nil},
		", classes: { by: [\"header:C\"] }": {true, nil},
		", classes: { rules: [{ operations: \"/a\", class: sheddable }] }": {true, nil},
		", classes: { floor: { sheddable: 0 } }":                           {false, map[string]float64{"critical": 0.01, "sheddable": 0}},
	} {
		c := &mustParse(t, one("http", more)).Ingresses[0].Classes
		if c.Given() != want.given {
			t.Errorf("%s: given = %v; want %v", more, c.Given(), want.given)
		}
		for class, floor := range want.floor {
			if got := c.FloorOf(class); got != floor {
				t.Errorf("%s: the floor of %s is %v; want %v", more, class, got, floor)
			}
		}
	}
}

// A limit is shared when any partition's is; what is not written is this gate's own.
func TestSharesLimit(t *testing.T) {
	for parts, want := range map[string]bool{
		"{ by: client }": false,
		"{ by: client, default: { limit: { shared: true } } }":                       true,
		"{ by: client, named: [{ name: n, limit: { shared: true } }, { name: m }] }": true,
		"{ by: client, default: { shared: true, rate: 5 } }":                         false, // the rate
	} {
		c := mustParse(t, "fleet: { redis: { addresses: \"r:1\" } }\n"+one("http", ", partitions: "+parts))
		if got := c.Ingresses[0].Partitions.SharesLimit(); got != want {
			t.Errorf("partitions: %s: a limit is shared: %v; want %v", parts, got, want)
		}
	}
}

// Where a setting was written is told by its line, through flow and block, and by
// the variable that goes over it; of a default nothing is told.
func TestSources(t *testing.T) {
	const text = `admin: { listen: 127.0.0.1:9 }
ingresses:
  - name: a
    listen: 127.0.0.1:1
    backend: http://h:1
    requests:
      rate: 5
    partitions:
      by: client
      named:
        - name: n
          rate: 7
        - { name: m,
            rate: 8 }
`
	of := config.Sources("admitd.yaml", []byte(text), []string{"ADMITD_INGRESSES__0__REQUESTS__QUEUE_DEPTH=3", "ADMITD_INGRESSES__0__PARTITIONS__NAMED__1__RATE=9"})
	for path, want := range map[string]string{
		"admin.listen":                          "admitd.yaml:1",
		"ingresses[0].requests.rate":            "admitd.yaml:7",
		"ingresses[0].partitions.by":            "admitd.yaml:9",
		"ingresses[0].partitions.named[0].rate": "admitd.yaml:12",
		"ingresses[0].partitions.named[1].name": "admitd.yaml:13",
		"ingresses[0].partitions.named[1].rate": "$ADMITD_INGRESSES__0__PARTITIONS__NAMED__1__RATE",
		"ingresses[0].requests.queueDepth":      "$ADMITD_INGRESSES__0__REQUESTS__QUEUE_DEPTH",
		"ingresses[0].requests.burstSeconds":    "",
		"ingresses[0].nowhere":                  "",
	} {
		if got := of(path); got != want {
			t.Errorf("%s comes from %q; want %q", path, got, want)
		}
	}
	if got := config.Sources("admitd.yaml", []byte("\t:"), nil)("admin.listen"); got != "" {
		t.Errorf("of what is no YAML: %q; want nothing", got)
	}
}

// Who may read the admin port without a token is who has none to show.
func TestReads(t *testing.T) {
	for text, want := range map[string]string{
		"{ reads: open }":                  "",
		"{ reads: token, tokenFile: /t }":  "",
		"{ reads: token }":                 "1: admin.reads: needs admin.tokenFile (token)",
		"{ reads: token, insecure: true }": "1: admin.reads: needs admin.tokenFile (token)",
		"{ reads: nobody, tokenFile: /t }": "1: admin.reads: must be open or token (nobody)",
	} {
		if got := strings.Join(problemsOf(t, "admin: "+text+"\n"+one("http", "")), "\n"); got != want {
			t.Errorf("admin: %s: %q; want %q", text, got, want)
		}
	}
}
