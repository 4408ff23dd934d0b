package arch_test

import (
	"slices"
	"strings"
	"testing"
)

const module = "github.com/admitd/admitd"

// anything marks the one room that may import every other.
const anything = "*"

// floors says, for each package, what it may import from this module. A package
// that is missing fails the test: a new room is drawn on the plan first.
var floors = map[string][]string{
	// 0: nothing of ours
	"internal/ingress/descriptors":         {},
	"internal/ingress/nowait":              {},
	"internal/ingress/httpgate/clientgone": {},
	"internal/ingress/httpgate/target":     {},
	"internal/ingress/httpgate/upstream":   {"internal/ingress/nowait"},
	"labels":                               {},
	"algorithms/parts":                     {},
	"algorithms/knee":                      {"algorithms/parts"},
	"algorithms":                           {"algorithms/knee", "algorithms/parts"},
	"internal/topkeys":                     {},
	"internal/baseline":                    {},
	"clock":                                {},
	"internal/eventqueue":                  {},
	"internal/config/strict":               {},
	"internal/config":                      {"internal/config/strict"},
	"internal/config/watch":                {"internal/config"},
	"internal/config/gen":                  {"internal/config"}, // a program: writes the schema and its documents
	"internal/mongowire":                   {},
	"internal/pulsarwire":                  {},

	// 1
	"limiter":           {"labels", "limiter/bucket", "limiter/index", "limiter/shape", "limiter/shed"},
	"limiter/bucket":    {},
	"limiter/index":     {},
	"limiter/shape":     {},
	"limiter/shed":      {"labels"},
	"status":            {"labels"},
	"internal/httpjson": {"internal/config/strict", "labels"},
	"limiter/limittest": {"limiter"},
	"client":            {"labels"},
	"client/permits":    {"labels"},
	"client/selection":  {"labels"},

	// 2
	"internal/ingress":       {"internal/ingress/descriptors", "limiter", "labels"},
	"internal/history":       {"internal/ingress", "limiter", "labels"},
	"internal/ingress/relay": {"internal/ingress", "internal/ingress/nowait", "limiter"},
	"client/pulsarproducer":  {"internal/pulsarwire"},

	"internal/ingress/httpgate/h2":          {"internal/ingress", "internal/ingress/httpgate/clientgone", "internal/ingress/httpgate/target", "labels"},
	"internal/ingress/httpgate/fastpath":    {"internal/ingress", "internal/ingress/httpgate/clientgone", "internal/ingress/httpgate/h2", "internal/ingress/httpgate/target", "internal/ingress/nowait", "labels"},
	"internal/ingress/httpgate/roundtrip":   {"internal/ingress", "internal/ingress/httpgate/upstream", "limiter"},
	"internal/ingress/postgresgate/sqltext": {},
	"internal/ingress/pulsargate/topics":    {"limiter", "internal/pulsarwire"},

	// 3: siblings do not know each other; daemon introduces them
	"internal/ingress/httpgate":     {"internal/topkeys", "internal/ingress", "internal/ingress/httpgate/fastpath", "internal/ingress/httpgate/roundtrip", "internal/ingress/httpgate/h2", "internal/ingress/httpgate/target", "internal/ingress/httpgate/upstream", "limiter", "labels"},
	"internal/ingress/mongogate":    {"internal/topkeys", "internal/ingress", "internal/ingress/relay", "limiter", "labels", "internal/mongowire"},
	"internal/ingress/postgresgate": {"internal/topkeys", "internal/ingress", "internal/ingress/postgresgate/sqltext", "internal/ingress/relay", "limiter", "labels"},
	"internal/ingress/pulsargate":   {"internal/topkeys", "internal/ingress", "internal/ingress/pulsargate/topics", "internal/ingress/relay", "limiter", "labels", "internal/pulsarwire"},
	"internal/shadow":               {"internal/eventqueue", "limiter", "labels", "status"},
	"internal/fleet":                {"internal/fleet/pool", "limiter", "status"},
	"internal/fleet/pool":           {},
	"observe":                       {"internal/ingress", "limiter", "labels"},
	"internal/admin":                {"internal/uplot", "internal/admin/statusdoc", "internal/httpjson", "internal/topkeys", "labels", "limiter", "status", "internal/history"},
	"internal/admin/statusdoc":      {"internal/httpjson", "internal/topkeys", "internal/ingress", "labels", "limiter", "status", "internal/history"},
	"internal/decide":               {"internal/httpjson", "labels", "limiter"},
	"internal/decide/envoy":         {"internal/decide", "limiter", "labels"},
	"internal/tracing":              {"limiter"},
	"internal/tuner":                {"internal/tuner/signal", "internal/tuner/policy"},
	"internal/tuner/signal":         {},
	"internal/tuner/policy":         {},
	"internal/tuner/source":         {},
	"internal/tuner/mongosource":    {"internal/tuner/source"},
	"internal/tuner/sqlsource":      {},
	"internal/lab":                  {"internal/lab/scenario", "internal/lab/measure", "internal/lab/openloop", "internal/lab/trace", "internal/eventqueue", "internal/fleet/pool", "limiter", "algorithms", "client", "labels", "clock"},
	"internal/lab/scenario":         {"internal/lab/measure", "algorithms", "client", "labels", "clock"},
	"internal/lab/falsify":          {"internal/lab", "internal/lab/scenario"},
	"internal/lab/measure":          {},
	"internal/lab/trace":            {"limiter"},
	"internal/lab/openloop":         {"internal/lab/measure", "client"},
	"internal/lab/report":           {"internal/uplot", "internal/lab/measure", "internal/lab/scenario"},
	"dashboards":                    {},

	// 4
	"internal/daemon": {
		"internal/daemon/memrelease", "internal/daemon/keys", "internal/daemon/protocol", "internal/daemon/tunersetup",
		"internal/config", "internal/config/watch", "status", "labels", "limiter", "algorithms", "clock",
		"internal/ingress", "internal/ingress/descriptors",
		"internal/tuner",
		"observe",
		"internal/admin", "internal/admin/statusdoc", "internal/topkeys", "internal/baseline", "internal/history",
		"internal/decide", "internal/decide/envoy",
		"internal/tracing", "internal/fleet", "internal/fleet/pool",
		"internal/lab/trace",
		"internal/shadow",
	},
	"internal/daemon/memrelease": {},
	"internal/daemon/keys":       {"internal/config", "internal/ingress"},
	"internal/daemon/protocol": {
		"internal/daemon/keys", "internal/config", "labels", "limiter", "clock", "internal/topkeys", "observe", "internal/tracing",
		"internal/ingress", "internal/ingress/descriptors", "internal/ingress/httpgate", "internal/ingress/mongogate", "internal/ingress/postgresgate", "internal/ingress/postgresgate/sqltext", "internal/ingress/pulsargate", "internal/ingress/pulsargate/topics",
		"internal/tuner/sqlsource",
	},
	"internal/daemon/tunersetup": {
		"internal/admin", "internal/config", "status",
		"internal/tuner", "internal/tuner/policy", "internal/tuner/signal", "internal/tuner/source", "internal/tuner/mongosource", "internal/tuner/sqlsource",
	},
	"internal/uplot": {},
	"internal/top":   {"status"},
	"cmd/admitd":     {anything},
	"cmd/admitd/labcmd": {
		"algorithms", "client", "internal/config", "internal/daemon", "internal/lab", "internal/lab/falsify", "internal/lab/measure", "internal/lab/openloop", "internal/lab/report", "internal/lab/scenario", "internal/lab/trace", "labels", "limiter",
	},

	// beside the house
	"internal/arch":               {},
	"internal/demo":               {"internal/daemon", "internal/admin", "internal/config", "internal/lab/measure", "internal/lab/openloop", "labels", "client", "client/pulsarproducer", "internal/modelhttp", "internal/modelmongo", "internal/modelpostgres", "internal/modelpulsar"},
	"internal/modelhttp":          {},
	"internal/modelmongo":         {"internal/modelwork", "internal/mongowire"},
	"internal/modelpostgres":      {"internal/modelwork"},
	"internal/modelpulsar":        {"internal/pulsarwire"},
	"internal/modelwork":          {},
	"internal/testkit/configured": {"internal/config"},
	"internal/testkit/golden":     {},
	"internal/testkit/keypair":    {},
	"internal/testkit/rawhttp2":   {},
}

// owners names, for each outside library that must stay in its place, the rooms
// that may import it. Everything below a room counts as the room.
var owners = map[string][]string{
	"github.com/platinummonkey/go-concurrency-limits": {"algorithms"},
	"github.com/knadh/koanf":                          {"internal/config"},
	"github.com/prometheus/client_golang":             {"observe", "internal/daemon"},
	"github.com/go-chi/chi":                           {"internal/ingress/httpgate", "internal/admin", "internal/decide"},
	"github.com/spf13/cobra":                          {"cmd"},
	"go.opentelemetry.io/otel":                        {"internal/tracing"},
	"github.com/jackc/pgx":                            {"internal/tuner/sqlsource"},
	"github.com/redis/go-redis":                       {"internal/fleet"},
	"github.com/envoyproxy/go-control-plane":          {"internal/decide/envoy"},
	"google.golang.org/grpc":                          {"internal/decide/envoy"},
}

// stdlibOnly are the rooms that import nothing from outside but the standard
// library, so that anyone can read or import them alone.
var stdlibOnly = []string{"labels", "limiter", "limiter/bucket", "limiter/index", "limiter/shape", "limiter/shed"}

// Every import inside the module points down the plan.
func TestImportsKeepToTheFloors(t *testing.T) {
	for _, p := range packages(t) {
		allowed, ok := floors[p.dir]
		if !ok {
			t.Errorf("package %q is not on the plan: add it to floors in internal/arch/floors_test.go", p.dir)
			continue
		}
		for _, f := range p.sources() {
			for _, imp := range f.imports {
				target, ours := strings.CutPrefix(imp, module+"/")
				if !ours {
					continue
				}
				if !permitted(allowed, target) {
					t.Errorf("%s imports %q; %q may import only %q", f.path, target, p.dir, allowed)
				}
			}
		}
	}
}

// The plan is no wider than the house: what a room may import and does not is
// taken off it, so that the next one who wants it asks why.
func TestNoArrowIsUnused(t *testing.T) {
	used := map[string]map[string]bool{}
	for _, p := range packages(t) {
		used[p.dir] = map[string]bool{}
		for _, f := range p.sources() {
			for _, imp := range f.imports {
				used[p.dir][strings.TrimPrefix(imp, module+"/")] = true
			}
		}
	}
	for room, allowed := range floors {
		if used[room] == nil {
			t.Errorf("the plan has a room %q, which is not there", room)
			continue
		}
		for _, target := range allowed {
			if target != anything && !used[room][target] {
				t.Errorf("%q may import %q and does not: take the arrow off the plan", room, target)
			}
		}
	}
}

// Outside libraries stay with their owner, so that each can be replaced in one
// place.
func TestLibrariesHaveOwners(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range p.sources() {
			for _, imp := range f.imports {
				for lib, rooms := range owners {
					if under(imp, lib) && !slices.ContainsFunc(rooms, func(r string) bool { return under(p.dir, r) }) {
						t.Errorf("%s imports %s, which belongs to %q", f.path, imp, rooms)
					}
				}
				if slices.Contains(stdlibOnly, p.dir) && strings.Contains(imp, ".") && !under(imp, module) {
					t.Errorf("%s imports %s; %q uses the standard library only", f.path, imp, p.dir)
				}
			}
		}
	}
}

// The plan itself must be able to refuse: these imports would each be a wall
// broken through.
func TestPlanRefuses(t *testing.T) {
	for _, tc := range []struct{ from, to string }{
		{"labels", "limiter"},
		{"algorithms", "limiter"},
		{"limiter", "algorithms"},
		{"limiter", "internal/ingress"},
		{"internal/ingress", "internal/ingress/httpgate"},
		{"internal/ingress/httpgate", "internal/ingress/mongogate"},
		{"internal/ingress/httpgate", "internal/config"},
		{"observe", "internal/admin"},
		{"internal/admin", "internal/config"},
		{"internal/admin", "internal/decide"},
		{"internal/decide", "internal/admin"},
		{"client", "limiter"},
		{"internal/lab", "observe"},
		{"internal/admin", "internal/daemon"},
		{"internal/top", "internal/daemon"},
		{"internal/daemon", "internal/testkit/mongobackend"},
	} {
		allowed, ok := floors[tc.from]
		if !ok {
			t.Errorf("%q is not on the plan", tc.from)
		}
		if permitted(allowed, tc.to) {
			t.Errorf("plan lets %q import %q", tc.from, tc.to)
		}
	}
}

// permitted reports whether a room that may import allowed may import target.
func permitted(allowed []string, target string) bool {
	return slices.Contains(allowed, anything) || slices.Contains(allowed, target)
}

// under reports whether path is base or lies below it.
func under(path, base string) bool {
	return path == base || strings.HasPrefix(path, base+"/")
}
