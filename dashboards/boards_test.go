package dashboards_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/admitd/admitd/dashboards"
)

// grafana is as much of a board's JSON as the tests look at.
type grafana struct {
	UID, Title, Description string
	Panels                  []grafanaPanel
	Templating              struct {
		List []struct {
			Name, Type, Description, Label string
			Query                          any
			Datasource                     *reference
		}
	}
	Annotations struct {
		List []struct {
			Name, Expr string
			Datasource *reference
			Target     *target
		}
	}
	Links []struct {
		Type                  string
		Tags                  []string
		IncludeVars, KeepTime bool
		Placement             string
	}
	Tags []string
}

type grafanaPanel struct {
	ID                       int
	Type, Title, Description string
	Datasource               *reference
	Targets                  []target
	Panels                   []grafanaPanel
	FieldConfig              struct{ Defaults struct{ Unit string } }
	GridPos                  struct{ X, Y, W, H int }
}

type reference struct{ Type, UID string }

type target struct {
	Expr, LegendFormat, RefID string
	Datasource                *reference
}

// boards reads every board, by the name of its file.
func boards(t *testing.T) map[string]grafana {
	t.Helper()
	all := map[string]grafana{}
	names, err := fs.Glob(dashboards.Files, "boards/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no boards: %v", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(dashboards.Files, name)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		var g grafana
		if err := json.Unmarshal(text, &g); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[path.Base(name)] = g
	}
	return all
}

// panels lists the panels of a board that draw, those inside rows too.
func (g *grafana) panels() (out []grafanaPanel) {
	for _, p := range g.Panels {
		if p.Type == "row" {
			out = append(out, p.Panels...)
		} else {
			out = append(out, p)
		}
	}
	return out
}

// builtIn are the kinds of panel that every Grafana has.
var builtIn = []string{"timeseries", "stat", "bargauge", "heatmap", "state-timeline", "row"}

// What every panel of every board must have.
func TestPanels(t *testing.T) {
	for file, g := range boards(t) {
		titles, ids := map[string]bool{}, map[int]bool{}
		for _, p := range g.Panels {
			if ids[p.ID] || p.ID == 0 {
				t.Errorf("%s: %q has the id %d, which is none or not its own", file, p.Title, p.ID)
			}
			ids[p.ID] = true
			if !slices.Contains(builtIn, p.Type) {
				t.Errorf("%s: %q is a %q, which needs a plugin", file, p.Title, p.Type)
			}
		}
		for _, p := range g.panels() {
			if titles[p.Title] {
				t.Errorf("%s: two panels are called %q", file, p.Title)
			}
			titles[p.Title] = true
			for _, problem := range lint(&p) {
				t.Errorf("%s: %q %s", file, p.Title, problem)
			}
		}
	}
}

var (
	window = regexp.MustCompile(`\[([^\]]+)\]`)
	rates  = regexp.MustCompile(`\b(rate|increase|irate|delta)\(`)
)

// lint lists what is wrong with a panel.
func lint(p *grafanaPanel) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if p.Title == "" || len(p.Description) < 20 {
		add("has no title or no description worth the name: %q", p.Description)
	}
	if p.FieldConfig.Defaults.Unit == "" {
		add("has no unit")
	}
	if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 || p.GridPos.H == 0 {
		add("is placed at %+v, outside of the grid", p.GridPos)
	}
	if !p.Datasource.variable() {
		add("takes its data from %+v, not from the variable", p.Datasource)
	}
	if len(p.Targets) == 0 {
		add("has no query")
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if !q.Datasource.variable() {
			add("query %s takes its data from %+v, not from the variable", q.RefID, q.Datasource)
		}
		if refs[q.RefID] || q.RefID == "" {
			add("has two queries %q", q.RefID)
		}
		refs[q.RefID] = true
		if q.LegendFormat == "" {
			add("query %s has no legend", q.RefID)
		}
		if rates.MatchString(q.Expr) && !window.MatchString(q.Expr) {
			add("query %s takes a rate over no window: %s", q.RefID, q.Expr)
		}
		for _, m := range window.FindAllStringSubmatch(q.Expr, -1) {
			if m[1] != "$__rate_interval" && m[1] != "$__range" {
				add("query %s has the fixed window %s", q.RefID, m[0])
			}
		}
	}
	return problems
}

func (r *reference) variable() bool {
	return r != nil && r.Type == "prometheus" && r.UID == "${datasource}"
}

// The lint finds what it is there for.
func TestLintRefuses(t *testing.T) {
	ok := func() grafanaPanel {
		ds := &reference{"prometheus", "${datasource}"}
		p := grafanaPanel{
			Title: "Goodput", Description: "Requests that went well, per second.", Datasource: ds,
			Targets: []target{{Expr: "rate(x[$__rate_interval])", LegendFormat: "x", RefID: "A", Datasource: ds}},
		}
		p.FieldConfig.Defaults.Unit = "reqps"
		p.GridPos.W, p.GridPos.H = 12, 8
		return p
	}
	good := ok()
	if problems := lint(&good); problems != nil {
		t.Fatalf("lint of a good panel: %q", problems)
	}
	for name, spoil := range map[string]func(p *grafanaPanel){
		"no title":       func(p *grafanaPanel) { p.Title = "" },
		"no description": func(p *grafanaPanel) { p.Description = "" },
		"no unit":        func(p *grafanaPanel) { p.FieldConfig.Defaults.Unit = "" },
		"too wide":       func(p *grafanaPanel) { p.GridPos.X = 13 },
		"own source":     func(p *grafanaPanel) { p.Datasource = &reference{"prometheus", "abc"} },
		"query's source": func(p *grafanaPanel) { p.Targets[0].Datasource = nil },
		"no query":       func(p *grafanaPanel) { p.Targets = nil },
		"no legend":      func(p *grafanaPanel) { p.Targets[0].LegendFormat = "" },
		"fixed window":   func(p *grafanaPanel) { p.Targets[0].Expr = "rate(x[5m])" },
		"no window":      func(p *grafanaPanel) { p.Targets[0].Expr = "rate(x)" },
	} {
		p := ok()
		spoil(&p)
		if lint(&p) == nil {
			t.Errorf("%s: lint finds nothing", name)
		}
	}
}

// What every board must have: variables, links to the others, marks.
func TestBoards(t *testing.T) {
	all := boards(t)
	if len(all) != 5 {
		t.Errorf("%d boards; want 5", len(all))
	}
	variables := map[string][]string{
		"fleet.json":     {"datasource", "job", "namespace", "pod", "instance"},
		"overview.json":  {"datasource", "job", "namespace", "pod", "instance", "ingress"},
		"partition.json": {"datasource", "job", "namespace", "pod", "instance", "ingress", "partition"},
		"ingress.json":   {"datasource", "job", "namespace", "pod", "instance", "ingress"},
		"benchmark.json": {"datasource", "job", "namespace", "pod", "instance", "ingress_a", "partition_a", "offset_a", "ingress_b", "partition_b", "offset_b"},
	}
	uids, titles := map[string]bool{}, map[string]bool{}
	for file, g := range all {
		if uids[g.UID] || titles[g.Title] || g.UID == "" || g.Title == "" || g.Description == "" {
			t.Errorf("%s: uid %q, title %q or description %q is empty or not its own", file, g.UID, g.Title, g.Description)
		}
		uids[g.UID], titles[g.Title] = true, true
		var names []string
		for _, v := range g.Templating.List {
			names = append(names, v.Name)
			if v.Description == "" || v.Label == "" {
				t.Errorf("%s: variable %s has no label or description", file, v.Name)
			}
			if v.Type == "query" && !v.Datasource.variable() {
				t.Errorf("%s: variable %s takes its values from %+v", file, v.Name, v.Datasource)
			}
		}
		if !slices.Equal(names, variables[file]) {
			t.Errorf("%s: variables %q; want %q", file, names, variables[file])
		}
		if len(g.Links) != 1 || !slices.Equal(g.Links[0].Tags, g.Tags) || !g.Links[0].IncludeVars || !g.Links[0].KeepTime || g.Links[0].Placement != "" {
			t.Errorf("%s: links %+v; want one to all boards tagged %q, keeping time and variables", file, g.Links, g.Tags)
		}
		for _, a := range g.Annotations.List {
			if !a.Datasource.variable() || a.Target == nil || a.Target.Expr != a.Expr {
				t.Errorf("%s: annotation %q asks %+v", file, a.Name, a.Datasource)
			}
		}
		if len(g.Annotations.List) < 2 {
			t.Errorf("%s: %d annotations; want reloads and fallback at least", file, len(g.Annotations.List))
		}
	}
}

// Variables that a query names exist on its board.
func TestQueriesKnowTheirVariables(t *testing.T) {
	name := regexp.MustCompile(`\$\{?(\w+)`)
	for file, g := range boards(t) {
		known := []string{"__rate_interval", "__range"}
		for _, v := range g.Templating.List {
			known = append(known, v.Name)
		}
		for _, p := range g.panels() {
			for _, q := range p.Targets {
				for _, m := range name.FindAllStringSubmatch(q.Expr, -1) {
					if !slices.Contains(known, m[1]) {
						t.Errorf("%s: %q asks for $%s, which the board does not have", file, p.Title, m[1])
					}
				}
			}
		}
	}
}

// metricName finds what could be a metric of ours in an expression.
var metricName = regexp.MustCompile(`[a-z_:]*(?:admitd|process|go)_[a-z0-9_:]+`)

// Every metric that a board or a rule names is described in docs/metrics.md,
// and that document is tested against the running daemon, or is recorded by a
// rule.
func TestMetricsExist(t *testing.T) {
	known := map[string]bool{}
	for _, m := range documented(t) {
		known[m.name] = true
		if m.kind == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				known[m.name+suffix] = true
			}
		}
	}
	for _, group := range rules(t).Groups {
		for _, r := range group.Rules {
			if r.Record != "" {
				known[r.Record] = true
			}
		}
	}
	check := func(where, expr string) {
		for _, name := range metricName.FindAllString(expr, -1) {
			if !known[name] {
				t.Errorf("%s asks for %s, which nothing exposes or records: %s", where, name, expr)
			}
		}
	}
	for file, g := range boards(t) {
		for _, p := range g.panels() {
			for _, q := range p.Targets {
				check(file+" "+p.Title, q.Expr)
			}
		}
		for _, a := range g.Annotations.List {
			check(file+" annotation "+a.Name, a.Expr)
		}
		for _, v := range g.Templating.List {
			if s, ok := v.Query.(string); ok && strings.Contains(s, "label_values") {
				check(file+" variable "+v.Name, s)
			}
		}
	}
	for _, group := range rules(t).Groups {
		for _, r := range group.Rules {
			check("rule "+r.name(), r.Expr)
		}
	}
}
