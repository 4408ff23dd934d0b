package scenario_test

import (
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/lab/scenario"
)

// smallest is the least that a scenario needs.
const smallest = `
name: x
about: y
for: 10s
load: [{ at: 0s, load: 1 }]
windows: [{ name: all, from: 0s, to: 10s }]
`

// A scenario that is wrong is refused with what is wrong.
func TestParseScenario(t *testing.T) {
	if _, err := scenario.Parse([]byte(smallest)); err != nil {
		t.Errorf("the smallest scenario: %v", err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"unknown key":          {smallest + "retires: 3\n", `unknown field "retires"`},
		"unknown nested key":   {smallest + "clients: { polcy: driver }\n", `unknown field "polcy"`},
		"not a duration":       {smallest + "timeout: soon\n", "not a duration"},
		"window outside":       {strings.Replace(smallest, "to: 10s", "to: 11s", 1), "window all must lie within the run"},
		"load begins late":     {strings.Replace(smallest, "at: 0s", "at: 1s", 1), "load must begin at 0s"},
		"unknown policy":       {smallest + "clients: { policy: eager }\n", "clients.policy must be"},
		"retries without end":  {smallest + "clients: { policy: naive, retries: -1 }\n", "clients.deadline must be > 0"},
		"budget of nothing":    {smallest + "clients: { budget: true }\n", "clients.budget needs a policy"},
		"unknown service":      {smallest + "backend: { workers: 1, service: { kind: zipf } }\n", "service.kind must be"},
		"unknown fault":        {smallest + "clock: melted@1s\n", "unknown kind"},
		"unknown measure":      {smallest + "pass: [{ measure: speed, atLeast: 1 }]\n", "measure must be one of"},
		"no bound":             {smallest + "pass: [{ measure: goodput }]\n", "exactly one of atLeast and atMost"},
		"unknown contender":    {smallest + "pass: [{ measure: goodput, atLeast: 1, by: [pid] }]\n", "by must be of"},
		"known for nothing":    {smallest + "pass: [{ measure: good, atLeast: 1, known: [{ is: 0.5 }] }]\n", "why must say"},
		"known by many":        {smallest + "pass: [{ measure: good, atLeast: 1, by: [best], known: [{ is: 0.5, why: x }] }]\n", "by must name one"},
		"known to be better":   {smallest + "pass: [{ measure: good, atMost: 0.5, known: [{ is: 0.4, why: x }] }]\n", "weaker than the target"},
		"known elsewhere":      {smallest + "pass: [{ measure: good, atMost: 0.5, known: [{ variants: [2x], is: 0.6, why: x }] }]\n", "about no variant 2x"},
		"unknown variant":      {smallest + "pass: [{ measure: goodput, atLeast: 1, variants: [2x] }]\n", "there is no variant 2x"},
		"unknown window":       {smallest + "pass: [{ measure: goodput, atLeast: 1, window: late }]\n", "has no window late"},
		"endless":              {strings.Replace(smallest, "load: 1", "load: 100000", 1), "arrivals, at most"},
		"longer than two days": {strings.Replace(smallest, "for: 10s", "for: 100h", 1), "for must be in"},
		"variants of variants": {smallest + "variants: [{ name: a, variants: [{ name: b }] }]\n", "cannot have variants"},
		"unknown in a variant": {smallest + "variants: [{ name: a, wrkers: 3 }]\n", `unknown field "wrkers"`},
		"two of one name":      {smallest + "variants: [{ name: a }, { name: a }]\n", "names of their own"},
		"patience backwards":   {smallest + "clients: { patience: { least: 2s, most: 1s } }\n", "clients.patience must"},
		"stops in part":        {smallest + "backend: { workers: 1, cancelled: maybe }\n", "backend.cancelled must"},
		"abandons in part":     {smallest + "abandon: maybe\n", "abandon must be"},
		"more than all":        {smallest + "arrivals: { high: 5, on: 1s, off: 1s }\n", "arrivals.high must"},
		"a class of no length": {smallest + "backend: { workers: 1, service: { kind: classes } }\n", "service.other must"},
		"ramps overlap":        {smallest + "health: [{ at: 1s, slow: 2, over: 5s }, { at: 3s }]\n", "health: a ramp must end"},
		"always paused":        {smallest + "pauses: { every: 1s, for: 2s }\n", "pauses must be shorter"},
		"not YAML":             {"name: [", "scenario"},
		"too large":            {strings.Repeat("#", 70_000), "at most 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scenario.Parse([]byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("ParseScenario: %v; want %q in it", err, tc.want)
			}
		})
	}
}

// Every problem is told at once.
func TestParseScenarioTellsEverything(t *testing.T) {
	_, err := scenario.Parse([]byte(smallest + "gates: 100\nseeds: 5000\n"))
	if err == nil || !strings.Contains(err.Error(), "gates must") || !strings.Contains(err.Error(), "seeds must") {
		t.Errorf("ParseScenario: %v; want both problems", err)
	}
}
