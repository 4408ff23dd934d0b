package dashboards_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/admitd/admitd/dashboards"
)

// ruleFile is a file of rules.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

type rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

func (r *rule) name() string { return r.Record + r.Alert }

// ruleTests is a file of unit tests of rules.
type ruleTests struct {
	Tests []struct {
		Name   string
		Alerts []struct {
			Alertname string
			Expected  []any `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

// rules reads the rules.
func rules(t *testing.T) ruleFile {
	t.Helper()
	text, err := fs.ReadFile(dashboards.Files, "rules/admitd.rules.yml")
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	var f ruleFile
	if err := yaml.UnmarshalWithOptions(text, &f, yaml.Strict()); err != nil {
		t.Fatalf("rules: %v", err)
	}
	return f
}

// alerts lists the alerting rules.
func alerts(t *testing.T) (out []rule) {
	t.Helper()
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				out = append(out, r)
			}
		}
	}
	return out
}

// Prometheus's own tool accepts the rules, and its unit tests of them pass.
func TestPromtool(t *testing.T) {
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "admitd.rules.yml"}, {"test", "rules", "admitd.test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = "rules"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// Each alert has a unit test that fires it and one that does not.
func TestAlertsAreTestedBothWays(t *testing.T) {
	text, err := os.ReadFile("rules/admitd.test.yml")
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	var f ruleTests
	if err := yaml.Unmarshal(text, &f); err != nil {
		t.Fatalf("tests of rules: %v", err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range f.Tests {
		for _, a := range test.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Alertname] = true
			} else {
				silent[a.Alertname] = true
			}
		}
	}
	for _, r := range alerts(t) {
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: a test that fires it: %v, one that does not: %v; want both", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}
}

// Each alert says how bad, what and where to read on, and the page is there;
// there is no page without an alert.
func TestRunbooks(t *testing.T) {
	const dir = "../docs/runbooks"
	pages := []string{"README.md"}
	overview, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	for _, r := range alerts(t) {
		page := r.Alert + ".md"
		pages = append(pages, page)
		if r.For == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks for, summary or description", r.Alert)
		}
		if !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
		}
		if want := "https://github.com/admitd/admitd/blob/main/docs/runbooks/" + page; r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url = %q; want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if row := "| [" + r.Alert + "](" + page + ") | " + r.Labels["severity"] + " |"; !strings.Contains(string(overview), row) {
			t.Errorf("docs/runbooks/README.md has no row %s", row)
		}
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Errorf("%s has no page: %v", r.Alert, err)
			continue
		}
		for _, heading := range []string{"# " + r.Alert, "## What it means", "## How to confirm", "## What to do"} {
			if !strings.Contains("\n"+string(text), "\n"+heading+"\n") {
				t.Errorf("%s has no heading %q", page, heading)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("ReadDir: %v", err)
	}
	for _, e := range entries {
		if !slices.Contains(pages, e.Name()) {
			t.Errorf("docs/runbooks/%s belongs to no alert", e.Name())
		}
	}
}

// tool finds a program of the Debian package prometheus or skips the test.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("%s is not installed: apt-get install prometheus (scripts/install-test-deps.sh does it as root)", name)
	}
	if err != nil {
		t.Fatalf("look for %s: %v", name, err)
	}
	return path
}

// A runbook that sends somebody to a panel sends them to one that exists.
func TestRunbooksNamePanels(t *testing.T) {
	known := map[string]bool{}
	for _, g := range boards(t) {
		for _, p := range g.panels() {
			known[p.Title] = true
		}
		for _, a := range g.Annotations.List {
			known[a.Name] = true
		}
	}
	quoted := regexp.MustCompile(`"([A-Z][^"]+)"`)
	n := 0
	for _, r := range alerts(t) {
		text, err := os.ReadFile(filepath.Join("../docs/runbooks", r.Alert+".md"))
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			n++
			if !known[m[1]] {
				t.Errorf("%s.md names a panel %q, which no board has", r.Alert, m[1])
			}
		}
	}
	if n == 0 {
		t.Error("no runbook names a panel")
	}
}
