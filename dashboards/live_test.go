package dashboards_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The daemon, built from source and under load, against everything that is
// written about it: the documented metrics, every panel's query and every rule.
func TestRunningDaemon(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the daemon and runs it under load; skipped by -short")
	}
	s := start(t)
	t.Run("metrics are documented", func(t *testing.T) { checkDocumented(t, s) })
	t.Run("label values are bounded", func(t *testing.T) { checkLabelValues(t, s) })
	t.Run("promlint", func(t *testing.T) { checkPromlint(t, s) })
	t.Run("queries", func(t *testing.T) { checkQueries(t, s) })
}

// question is one query of a board or a rule.
type question struct{ where, expr string }

// empty are the queries that may return nothing here, with the reason. For an
// alert among them every metric it selects is asked for instead.
func empty() map[string]string {
	return map[string]string{
		"annotation Draining":                 "nothing is drained while it is looked at",
		"alert AdmitdLimitAtMinimum":          "needs a limit that stands still for ten minutes",
		"alert AdmitdLimitAtMaximum":          "needs a limit that stands still for ten minutes",
		"alert AdmitdBackendSlowLimitFalling": "compares with the limit of five minutes ago",
		"annotation Tuner changes":            "the scene reloads each second, and the tuner settles after each",
		"alert AdmitdExemptMany":              "few requests of the scene are exempt",
		"alert AdmitdGateSlow":                "one request in sixteen is measured, which is less than one a second here",
		"alert AdmitdBackendFailing":          "every backend of the scene answers",
		"alert AdmitdBackendErrors":           "few of the answers are errors",
		"alert AdmitdBackendSlow":             "compares with most of a day",
		"alert AdmitdCertificateExpires":      "no certificate of the scene is about to expire",
		"alert AdmitdOutOfDescriptors":        "the daemons have descriptors enough",
		"alert AdmitdStateNotWritten":         "the state file can be written",
		"alert AdmitdGateDelayed":             "the scene is small",
		"alert AdmitdOpaqueConnections":       "nobody encrypts past the gate",
		"alert AdmitdTargetDown":              "both daemons answer",
		"alert AdmitdCallersLeave":            "few callers leave",
		"alert AdmitdRetryStorm":              "one request in four is a retry",
		"alert AdmitdInvalidRequests":         "few requests are invalid",
		"alert AdmitdFleetPartly":             "the scene's group answers for all that is shared, or not at all",
		"alert AdmitdFleetFilesDiffer":        "the gates of the scene share no rate of which their files differ",
		"alert AdmitdTunerReverted":           "nothing is changed, so that nothing is taken back",
	}
}

// prometheus starts a Prometheus that scrapes the scene each second, and
// returns its address.
func prometheus(t *testing.T, s *scene) string {
	t.Helper()
	binary := tool(t, "prometheus")
	dir := t.TempDir()
	ruleFile, err := filepath.Abs("rules/admitd.rules.yml")
	if err != nil {
		t.Fatalf("rules: %v", err)
	}
	config := fmt.Sprintf("global: { scrape_interval: 1s, evaluation_interval: 1s }\nrule_files: [%q]\n"+
		"scrape_configs: [{ job_name: admitd, static_configs: [{ targets: [%q, %q] }] }]\n", ruleFile, s.main, s.broken)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatalf("write: %v", err)
	}
	addr := addresses(t, 1)[0]
	spawn(t, exec.CommandContext(t.Context(), binary, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr))
	waitFor(t, "prometheus", func() bool { return get(t, "http://"+addr+"/-/ready", nil) == nil })
	return addr
}

// answer asks Prometheus and returns how many series have a number.
func answer(t *testing.T, addr, expr string) (int, error) {
	t.Helper()
	var text string
	err := get(t, "http://"+addr+"/api/v1/query?query="+url.QueryEscape(expr), &text)
	var reply struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     []struct{ Value [2]any }
		}
	}
	if jerr := json.Unmarshal([]byte(text), &reply); jerr != nil {
		return 0, fmt.Errorf("%w: %w", err, jerr)
	}
	if reply.Status != "success" {
		return 0, fmt.Errorf("%s", reply.Error)
	}
	n := 0
	for _, r := range reply.Data.Result {
		if r.Value[1] != "NaN" {
			n++
		}
	}
	return n, nil
}

var variable = strings.NewReplacer(
	"$__rate_interval", "10s", "$__range", "30s", "$offset_a", "1s", "$offset_b", "1s",
	"$job", ".+", "$namespace", ".*", "$pod", ".*", "$instance", ".+", "$ingress_a", ".+", "$ingress_b", ".+", "$ingress", ".+",
	"$partition_a", ".+", "$partition_b", ".+", "$partition", ".+",
)

// selector finds what an expression selects.
var selector = regexp.MustCompile(`[a-z_:]*admitd_[a-z0-9_:]+(\{[^}]*\})?`)

// questions lists every query there is.
func questions(t *testing.T) (out []question) {
	t.Helper()
	for file, g := range boards(t) {
		for _, p := range g.panels() {
			for _, q := range p.Targets {
				out = append(out, question{file + " " + p.Title + " " + q.RefID, variable.Replace(q.Expr)})
			}
		}
		for _, a := range g.Annotations.List {
			out = append(out, question{"annotation " + a.Name, variable.Replace(a.Expr)})
		}
	}
	for _, group := range rules(t).Groups {
		for _, r := range group.Rules {
			if r.Record != "" {
				out = append(out, question{"rule " + r.Record, r.Expr}, question{"recorded " + r.Record, r.Record})
				continue
			}
			where := "alert " + r.Alert
			out = append(out, question{where, r.Expr})
			if empty()[where] == "" {
				continue
			}
			for _, s := range selector.FindAllString(r.Expr, -1) {
				out = append(out, question{where + " selecting " + s, s})
			}
		}
	}
	return out
}

// checkQueries evaluates every query until each has returned data.
func checkQueries(t *testing.T, s *scene) {
	t.Helper()
	addr := prometheus(t, s)
	open := questions(t)
	all := len(open)
	for name := range empty() {
		if !slices.ContainsFunc(open, func(q question) bool { return q.where == name }) {
			t.Errorf("%q is on the list of empty queries and does not exist", name)
		}
	}
	limit := time.After(60 * time.Second)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	seen := map[string]int{}
	for waiting := true; waiting; {
		open = slices.DeleteFunc(open, func(q question) bool {
			n, err := answer(t, addr, q.expr)
			if err != nil {
				t.Errorf("%s: %v\n%s", q.where, err, q.expr)
			}
			seen[q.where] = n
			return err != nil || n > 0
		})
		if !slices.ContainsFunc(open, func(q question) bool { return empty()[q.where] == "" }) {
			break
		}
		select {
		case <-tick.C:
		case <-limit:
			waiting = false
		}
	}
	for _, q := range open {
		if reason := empty()[q.where]; reason != "" {
			t.Logf("no data, as expected: %s: %s", q.where, reason)
			continue
		}
		t.Errorf("%s returns no data: %s", q.where, q.expr)
	}
	t.Logf("%d of %d queries returned data", all-len(open), all)
	checkRuleHealth(t, addr)
}

// checkRuleHealth asks Prometheus whether it could evaluate the rules.
func checkRuleHealth(t *testing.T, addr string) {
	t.Helper()
	var text string
	if err := get(t, "http://"+addr+"/api/v1/rules", &text); err != nil {
		t.Fatalf("rules: %v", err)
	}
	var reply struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		t.Fatalf("rules: %v", err)
	}
	n := 0
	for _, g := range reply.Data.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" {
				t.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if want := len(rules(t).Groups[0].Rules) + len(alerts(t)); n != want {
		t.Errorf("Prometheus knows %d rules; want %d", n, want)
	}
}
