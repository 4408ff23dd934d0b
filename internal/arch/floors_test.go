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
	"ingress/descriptors":        {},
	"ingress/nowait":             {},
	"ingress/httpgate/departure": {},
	"ingress/httpgate/target":    {},
	"ingress/httpgate/upstream":  {"ingress/nowait"},
	"labels":                     {},
	"algorithms/parts":           {},
	"algorithms/knee":            {"algorithms/parts"},
	"algorithms":                 {"algorithms/knee", "algorithms/parts"},
	"askers":                     {},
	"baseline":                   {},
	"clock":                      {},
	"agenda":                     {},
	"config/strict":              {},
	"config":                     {"config/strict"},
	"config/watch":               {"config"},
	"config/gen":                 {"config"}, // a program: writes the schema and its documents
	"mongowire":                  {},
	"pulsarwire":                 {},

	// 1
	"limiter":           {"labels", "limiter/bucket", "limiter/index", "limiter/shape", "limiter/shed"},
	"limiter/bucket":    {},
	"limiter/index":     {},
	"limiter/shape":     {},
	"limiter/shed":      {"labels"},
	"status":            {"labels"},
	"answers":           {"config/strict", "labels"},
	"limiter/limittest": {"limiter"},
	"client":            {"labels"},
	"client/permits":    {"labels"},
	"client/selection":  {"labels"},

	// 2
	"ingress":               {"ingress/descriptors", "limiter", "labels"},
	"vitals":                {"ingress", "limiter", "labels"},
	"ingress/relay":         {"ingress", "ingress/nowait", "limiter"},
	"client/pulsarproducer": {"pulsarwire"},

	"ingress/httpgate/streams":     {"ingress", "ingress/httpgate/departure", "ingress/httpgate/target", "labels"},
	"ingress/httpgate/doorstep":    {"ingress", "ingress/httpgate/departure", "ingress/httpgate/streams", "ingress/httpgate/target", "ingress/nowait", "labels"},
	"ingress/httpgate/exchange":    {"ingress", "ingress/httpgate/upstream", "limiter"},
	"ingress/postgresgate/sqltext": {},
	"ingress/pulsargate/topics":    {"limiter", "pulsarwire"},

	// 3: siblings do not know each other; daemon introduces them
	"ingress/httpgate":     {"askers", "ingress", "ingress/httpgate/doorstep", "ingress/httpgate/exchange", "ingress/httpgate/streams", "ingress/httpgate/target", "ingress/httpgate/upstream", "limiter", "labels"},
	"ingress/mongogate":    {"askers", "ingress", "ingress/relay", "limiter", "labels", "mongowire"},
	"ingress/postgresgate": {"askers", "ingress", "ingress/postgresgate/sqltext", "ingress/relay", "limiter", "labels"},
	"ingress/pulsargate":   {"askers", "ingress", "ingress/pulsargate/topics", "ingress/relay", "limiter", "labels", "pulsarwire"},
	"shadow":               {"agenda", "limiter", "labels", "status"},
	"fleet":                {"fleet/pool", "limiter", "status"},
	"fleet/pool":           {},
	"observe":              {"ingress", "limiter", "labels"},
	"admin":                {"admin/press", "answers", "askers", "labels", "limiter", "status", "vitals"},
	"admin/press":          {"answers", "askers", "ingress", "labels", "limiter", "status", "vitals"},
	"decide":               {"answers", "labels", "limiter"},
	"decide/envoy":         {"decide", "limiter", "labels"},
	"tracing":              {"limiter"},
	"tuner":                {"tuner/signal", "tuner/policy"},
	"tuner/signal":         {},
	"tuner/policy":         {},
	"tuner/source":         {},
	"tuner/mongosource":    {"tuner/source"},
	"tuner/sqlsource":      {},
	"lab":                  {"lab/scenario", "lab/measure", "lab/openloop", "lab/trace", "agenda", "fleet/pool", "limiter", "algorithms", "client", "labels", "clock"},
	"lab/scenario":         {"lab/measure", "algorithms", "client", "labels", "clock"},
	"lab/falsify":          {"lab", "lab/scenario"},
	"lab/measure":          {},
	"lab/trace":            {"limiter"},
	"lab/openloop":         {"lab/measure", "client"},
	"lab/report":           {"lab/measure", "lab/scenario"},
	"dashboards":           {},

	// 4
	"daemon": {
		"daemon/ebb", "daemon/keys", "daemon/protocol", "daemon/steward",
		"config", "config/watch", "status", "labels", "limiter", "algorithms", "clock",
		"ingress", "ingress/descriptors",
		"tuner",
		"observe",
		"admin", "admin/press", "askers", "baseline", "vitals",
		"decide", "decide/envoy",
		"tracing", "fleet", "fleet/pool",
		"lab/trace",
		"shadow",
	},
	"daemon/ebb":  {},
	"daemon/keys": {"config", "ingress"},
	"daemon/protocol": {
		"daemon/keys", "config", "labels", "limiter", "clock", "askers", "observe", "tracing",
		"ingress", "ingress/descriptors", "ingress/httpgate", "ingress/mongogate", "ingress/postgresgate", "ingress/postgresgate/sqltext", "ingress/pulsargate", "ingress/pulsargate/topics",
		"tuner/sqlsource",
	},
	"daemon/steward": {
		"admin", "config", "status",
		"tuner", "tuner/policy", "tuner/signal", "tuner/source", "tuner/mongosource", "tuner/sqlsource",
	},
	"top":        {"status"},
	"cmd/admitd": {anything},
	"cmd/admitd/labcmd": {
		"algorithms", "client", "config", "daemon", "internal/demo", "internal/modelmongo", "internal/modelpostgres", "lab", "lab/falsify", "lab/measure", "lab/openloop", "lab/report", "lab/scenario", "lab/trace", "labels", "limiter",
	},

	// beside the house
	"internal/arch":               {},
	"internal/arch/figures":       {"internal/arch"},
	"internal/demo":               {"daemon", "admin", "config", "lab/measure", "lab/openloop", "labels", "client", "client/pulsarproducer", "internal/modelhttp", "internal/modelmongo", "internal/modelpostgres", "internal/modelpulsar"},
	"internal/modelhttp":          {},
	"internal/modelmongo":         {"internal/modelwork", "mongowire"},
	"internal/modelpostgres":      {"internal/modelwork"},
	"internal/modelpulsar":        {"pulsarwire"},
	"internal/modelwork":          {},
	"internal/testkit/configured": {"config"},
	"internal/testkit/golden":     {},
	"internal/testkit/keypair":    {},
	"internal/testkit/rawhttp2":   {},
}

// owners names, for each outside library that must stay in its place, the rooms
// that may import it. Everything below a room counts as the room.
var owners = map[string][]string{
	"github.com/platinummonkey/go-concurrency-limits": {"algorithms"},
	"github.com/knadh/koanf":                          {"config"},
	"github.com/prometheus/client_golang":             {"observe", "daemon"},
	"github.com/go-chi/chi":                           {"ingress/httpgate", "admin", "decide"},
	"github.com/spf13/cobra":                          {"cmd"},
	"go.opentelemetry.io/otel":                        {"tracing"},
	"github.com/jackc/pgx":                            {"tuner/sqlsource"},
	"github.com/redis/go-redis":                       {"fleet"},
	"github.com/envoyproxy/go-control-plane":          {"decide/envoy"},
	"google.golang.org/grpc":                          {"decide/envoy"},
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
		{"limiter", "ingress"},
		{"ingress", "ingress/httpgate"},
		{"ingress/httpgate", "ingress/mongogate"},
		{"ingress/httpgate", "config"},
		{"observe", "admin"},
		{"admin", "config"},
		{"admin", "decide"},
		{"decide", "admin"},
		{"client", "limiter"},
		{"lab", "observe"},
		{"admin", "daemon"},
		{"top", "daemon"},
		{"daemon", "internal/testkit/mongobackend"},
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
