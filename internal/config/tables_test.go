package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/config"
)

// problemsOf returns what is said of a configuration, a line each, less the file.
func problemsOf(t *testing.T, content string) []string {
	t.Helper()
	_, err := config.Parse("f", []byte(content), nil)
	var problems config.Problems
	if err == nil {
		return nil
	}
	if !errors.As(err, &problems) {
		t.Fatalf("the error is %T: %v", err, err)
	}
	var list []string
	for _, p := range problems {
		list = append(list, strings.TrimPrefix(p.String(), "f:"))
	}
	return list
}

// one is an ingress of a protocol with more keys.
func one(protocol, more string) string {
	backend := map[string]string{"http": "http://h:1", "mongodb": "db:27017", "pulsar": "pulsar://b:6650", "postgres": "db:5432"}[protocol]
	return fmt.Sprintf("ingresses:\n  - { name: a, protocol: %s, listen: 127.0.0.1:1, backend: \"%s\"%s }\n", protocol, backend, more)
}

// Where no client waits by itself the gate does, for most of what was promised;
// elsewhere an automatic queue is the limit's own matter.
func TestPatience(t *testing.T) {
	for protocol, waits := range map[string]bool{"http": false, "mongodb": false, "postgres": true} {
		for more, want := range map[string]time.Duration{"": 250 * time.Millisecond, ", objective: 2s": 1500 * time.Millisecond} {
			in := &mustParse(t, one(protocol, more)).Ingresses[0]
			depth, wait, ok := config.Patience(in)
			if !waits {
				want = 0
			}
			if ok != waits || wait != want || (depth > 0) != waits {
				t.Errorf("%s%s: Patience = %d, %v, %v; want %v", protocol, more, depth, wait, ok, want)
			}
		}
	}
}

// What a drop is to aimd follows what is promised, unless it is written.
func TestRequestTimeoutFollowsTheObjective(t *testing.T) {
	const aimd = "partitions: { by: [client], default: { limit: { algorithm: aimd%s } }, named: [{ name: n, limit: { algorithm: aimd } }] }"
	for more, want := range map[string][2]time.Duration{
		", " + fmt.Sprintf(aimd, ""):                                          {200 * time.Millisecond, 200 * time.Millisecond},
		", objective: 1s, " + fmt.Sprintf(aimd, ""):                           {800 * time.Millisecond, 800 * time.Millisecond},
		", objective: 1s, " + fmt.Sprintf(aimd, ", requestTimeout: 30ms"):     {30 * time.Millisecond, 800 * time.Millisecond},
		", objective: 1ms, " + fmt.Sprintf(aimd, ""):                          {time.Millisecond, time.Millisecond},
		", objective: 1s, partitions: { by: [client], named: [{ name: n }] }": {0, 0}, // knee has none
	} {
		p := mustParse(t, one("http", more)).Ingresses[0].Partitions
		got := [2]time.Duration{time.Duration(p.Default.Limit.RequestTimeout), time.Duration(p.Named[0].Limit.RequestTimeout)}
		if got != want {
			t.Errorf("%s: request timeouts %v; want %v", more, got, want)
		}
		if p.Named[0].Match != "n" {
			t.Errorf("%s: a named partition without match serves %q; want its name", more, p.Named[0].Match)
		}
	}
}

// A policy may adjust numbers that can change while the gate runs, of an ingress by
// name or of all, and nothing else.
func TestAdjustable(t *testing.T) {
	const text = `
ingresses:
  - { name: a, listen: 127.0.0.1:1, backend: "http://h:1", partitions: { by: [client], default: { limit: { algorithm: fixed } }, named: [{ name: n, limit: { algorithm: vegas }, queue: { depth: 0 } }, { name: g, limit: { algorithm: gradient2 } }] } }
tuner:
  signals: [{ name: s, source: host, metric: cpu }]
  policies: [{ name: p, kind: threshold, signal: s, adjust: "%s", above: 0.9, below: 0.5, min: 1, max: 9 }]
`
	const bad = "is not a number that can change while the gate runs, such as orders.requests.rate"
	for adjust, good := range map[string]bool{
		"a.requests.rate": true, "*.requests.rate": true, "a.requests.queueDepth": true, "a.connections.maxOpen": true,
		"a.partitions.total": true, "a.partitions.default.limit.limit": true, "a.partitions.named.n.limit.maxLimit": true, "a.partitions.n.rate": true,
		"a.partitions.*.rate": true, "a.partitions.n.queue.depth": true, "a.partitions.*.queue.maxWait": true,
		"a.partitions.default.queue.depth": false, "a.partitions.g.queue.maxWait": false, // they are auto
		// Numbers that only people change. They were found out later, without the line.
		"a.partitions.default.weight": false, "a.partitions.n.maxShare": false, "a.partitions.g.limit.longWindow": false, "a.connections.reserved": false,
		"b.requests.rate": false, "a.requests": false, "a.listen": false, "a.partitions.max": false, "a.mode.x": false,
		"a.partitions.default.limit.maxLimit":  false, // of another algorithm
		"a.partitions.default.limit.algorithm": false, "a.partitions.m.rate": false, "a.partitions.default.limit": false, "a": false, "requests.rate": false,
	} {
		got := problemsOf(t, fmt.Sprintf(text, adjust))
		refused := strings.Contains(strings.Join(got, "\n"), bad)
		if refused == good {
			t.Errorf("adjust: %s is refused: %v (%q)", adjust, refused, got)
		}
		if told := strings.Contains(strings.Join(got, "\n"), "a queue that is auto has none"); told != (refused && strings.Contains(adjust, ".queue.")) {
			t.Errorf("adjust: %s tells of a queue that is auto: %v (%q)", adjust, told, got)
		}
	}
}

// A candidate may have another algorithm, or a queue that is auto, than a policy of the
// tuner adjusts: nobody adjusts candidates.
func TestCandidateBesideTuner(t *testing.T) {
	const text = `
ingresses:
  - { name: a, listen: 127.0.0.1:1, backend: "http://h:1", partitions: { default: { limit: { algorithm: vegas }, queue: { depth: 5 } } } }
tuner:
  signals: [{ name: s, source: host, metric: cpu }]
  policies:
    - { name: p, signal: s, adjust: a.partitions.default.limit.alpha, above: 0.9, below: 0.5, min: 1, max: 9, step: 0.5 }
    - { name: q, signal: s, adjust: a.partitions.default.queue.depth, above: 0.9, below: 0.5, min: 1, max: 9, step: 0.5 }
shadow: [{ name: c, ingress: a, partitions: { default: { limit: { algorithm: knee }, queue: auto } } }]
`
	if got := problemsOf(t, text); got != nil {
		t.Errorf("the candidate is refused: %q", got)
	}
}

// Two listeners that cannot both be opened are told, in every spelling of one address.
func TestClashes(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b  string
		clash bool
	}{
		"same":                 {"127.0.0.1:1", "127.0.0.1:1", true},
		"other port":           {"127.0.0.1:1", "127.0.0.1:2", false},
		"other host":           {"127.0.0.1:1", "127.0.0.2:1", false},
		"all and one":          {":1", "127.0.0.1:1", true},
		"all of a family":      {"0.0.0.0:1", "127.0.0.1:1", true},
		"all of the other":     {"[::]:1", "10.0.0.1:1", true},
		"any free port":        {"127.0.0.1:0", "127.0.0.1:0", false},
		"mapped address":       {"[::ffff:127.0.0.1]:1", "127.0.0.1:1", true},
		"name of the loopback": {"localhost:1", "127.0.0.1:1", true},
		"names":                {"Gate.example:1", "gate.example.:1", true},
		"other names":          {"gate.example:1", "game.example:1", false},
	} {
		text := fmt.Sprintf("admin: { listen: \"127.0.0.1:9\" }\ningresses:\n  - { name: a, listen: %q, backend: \"http://h:1\" }\n  - { name: b, listen: %q, backend: \"http://h:2\" }\n", tc.a, tc.b)
		got := problemsOf(t, text)
		if clash := strings.Contains(strings.Join(got, "\n"), "clashes with"); clash != tc.clash || len(got) > 1 {
			t.Errorf("%s: %s and %s clash: %v (%q); want %v", name, tc.a, tc.b, clash, got, tc.clash)
		}
	}
}

// Every file that is named for reading is opened when that is asked for, and only
// then; what cannot be read is a problem at its line, among the others.
func TestLoadWithFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	file := write("admitd.yaml", "admin: { tokenFile: "+filepath.Join(dir, "gone")+" }\n"+one("http", ""))
	if _, err := config.Load(file, nil); err != nil {
		t.Errorf("Load opens files: %v", err)
	}
	_, err := config.LoadWithFiles(file, nil)
	if want := file + ":1: admin.tokenFile: cannot be read: no such file or directory (" + filepath.Join(dir, "gone") + ")"; err == nil || err.Error() != want {
		t.Errorf("LoadWithFiles: %v; want %s", err, want)
	}
	write("gone", "token")
	if _, err := config.LoadWithFiles(file, nil); err != nil {
		t.Errorf("with every file there: %v", err)
	}
	if _, err := config.LoadWithFiles(filepath.Join(dir, "none.yaml"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a configuration: %v; want what kept it from being read", err)
	}
}

// Names of partitions and ingresses stand in metrics and paths: what they may be is
// a closed alphabet, and some are taken.
func TestNames(t *testing.T) {
	for name, good := range map[string]bool{
		"orders": true, "a-b_c.9": true, strings.Repeat("x", 63): true,
		"default": false, "overflow": false, "a b": false, "ü": false, "a/b": false, strings.Repeat("x", 300): false,
	} {
		got := problemsOf(t, one("http", fmt.Sprintf(", partitions: { by: [client], named: [{ name: %q }] }", name)))
		if (len(got) == 0) != good {
			t.Errorf("a partition of the name %.20q: %q; want it taken: %v", name, got, good)
		}
	}
	for _, list := range []string{"named: [{ name: n }, { name: n, match: x }]", "named: [{ name: n, match: x }, { name: m, match: x }]"} {
		if got := problemsOf(t, one("http", ", partitions: { by: [client], "+list+" }")); len(got) != 1 {
			t.Errorf("%s: %q; want it refused once", list, got)
		}
	}
}
