package dashboards_test

import (
	"bufio"
	"bytes"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// metric is a row of docs/metrics.md, or what a daemon exposes.
type metric struct{ name, kind, labels string }

var documentedRow = regexp.MustCompile("(?m)^\\| `(admitd_[a-z_]+)` \\| (\\w+) \\| ([a-z, ]*) ?\\| (.{10,}) \\|$")

// documented reads the tables of docs/metrics.md, and the metrics of the Go
// runtime and the process that it names.
func documented(t *testing.T) (out []metric) {
	t.Helper()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	for _, m := range documentedRow.FindAllStringSubmatch(string(text), -1) {
		out = append(out, metric{m[1], m[2], strings.ReplaceAll(strings.TrimSpace(m[3]), ", ", " ")})
	}
	if rows := strings.Count(string(text), "\n| `admitd_"); rows != len(out) {
		t.Errorf("docs/metrics.md has %d rows of metrics, %d can be read", rows, len(out))
	}
	for _, m := range regexp.MustCompile("`((?:go|process)_[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
		out = append(out, metric{name: m[1]})
	}
	return out
}

// scraped reads the text format: every family with its type and the names of
// its labels, sorted.
func scraped(t *testing.T, text string) map[string]metric {
	t.Helper()
	out := map[string]metric{}
	sample := regexp.MustCompile(`^([a-z_:]+)(?:\{(.*)\})? `)
	label := regexp.MustCompile(`([a-zA-Z_]+)="`)
	current := metric{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			current = metric{name: name, kind: kind}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil || strings.HasPrefix(line, "#") {
			continue
		}
		names := map[string]bool{}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			names[l[1]] = true
		}
		delete(names, "le")
		current.labels = strings.Join(slices.Sorted(maps.Keys(names)), " ")
		if known, ok := out[current.name]; ok && known.labels != current.labels && strings.HasPrefix(current.name, "admitd_") {
			t.Errorf("%s has series with labels %q and with %q", current.name, known.labels, current.labels)
		}
		out[current.name] = current
	}
	return out
}

// contract is what users and scripts rely on: names, types and labels.
func contract() []metric {
	return []metric{
		{"admitd_requests_received_total", "counter", "ingress partition"},
		{"admitd_requests_admitted_total", "counter", "ingress partition"},
		{"admitd_requests_rejected_total", "counter", "ingress limit partition reason"},
		{"admitd_requests_abandoned_total", "counter", "ingress partition"},
		{"admitd_requests_exempted_total", "counter", "ingress"},
		{"admitd_request_duration_seconds", "histogram", "ingress outcome partition"},
		{"admitd_concurrency_limit", "gauge", "algorithm ingress partition"},
		{"admitd_requests_in_flight", "gauge", "ingress partition"},
		{"admitd_base_rtt_seconds", "gauge", "ingress partition"},
		{"admitd_bucket_tokens", "gauge", "bucket ingress"},
		{"admitd_connections_open", "gauge", "ingress"},
		{"admitd_connections_accepted_total", "counter", "ingress"},
		{"admitd_connections_rejected_total", "counter", "ingress reason"},
		{"admitd_backend_responses_total", "counter", "class ingress"},
		{"admitd_request_attempts_total", "counter", "attempt ingress"},
		{"admitd_tls_certificate_expiry_timestamp_seconds", "gauge", "listener"},
		{"admitd_clock_trusted", "gauge", ""},
		{"admitd_fallback_active", "gauge", "ingress"},
		{"admitd_config_last_reload_successful", "gauge", ""},
		{"admitd_config_last_reload_success_timestamp_seconds", "gauge", ""},
		{"admitd_build_info", "gauge", "goversion version"},
		{"admitd_tuner_changes_total", "counter", "policy"},
		{"admitd_tuner_reverts_total", "counter", "policy"},
		{"admitd_tuner_signal_trusted", "gauge", "signal"},
		{"admitd_fleet_share", "gauge", "quota"},
		{"admitd_fleet_gates", "gauge", ""},
		{"admitd_fleet_lease_age_seconds", "gauge", ""},
		{"admitd_fleet_mode", "gauge", "mode"},
	}
}

// checkDocumented compares docs/metrics.md and the contract with what the
// daemons of the scene expose.
func checkDocumented(t *testing.T, s *scene) {
	t.Helper()
	docs := map[string]metric{}
	for _, m := range documented(t) {
		docs[m.name] = m
	}
	for _, m := range contract() {
		if docs[m.name] != m {
			t.Errorf("docs/metrics.md says %+v; the contract says %+v", docs[m.name], m)
		}
	}
	got := map[string]metric{}
	missing := ""
	defer func() {
		if t.Failed() && missing != "" {
			t.Logf("documented and not exposed: %s", missing)
		}
	}()
	waitFor(t, "every metric", func() bool {
		for _, addr := range []string{s.main, s.broken} {
			var text string
			if err := get(t, "http://"+addr+"/metrics", &text); err != nil {
				t.Fatalf("scrape: %v", err)
			}
			maps.Copy(got, scraped(t, text))
		}
		for name := range docs {
			if _, ok := got[name]; !ok {
				missing = name
				return false
			}
		}
		missing = ""
		return true
	})
	for name, m := range got {
		d, ok := docs[name]
		switch {
		case !strings.HasPrefix(name, "admitd_"):
			if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
				t.Errorf("%s is exposed, is not ours, and nothing says what it is", name)
			}
		case !ok:
			t.Errorf("%s is exposed and not in docs/metrics.md", name)
		case d != m:
			t.Errorf("docs/metrics.md says %+v; exposed is %+v", d, m)
		}
	}
}

// checkLabelValues: no client's key becomes a label.
func checkLabelValues(t *testing.T, s *scene) {
	t.Helper()
	var text string
	if err := get(t, "http://"+s.main+"/metrics", &text); err != nil {
		t.Fatalf("scrape: %v", err)
	}
	for _, key := range []string{"alice", "tenant-", "acme"} {
		if strings.Contains(text, key) {
			t.Errorf("a client's key %q is exposed", key)
		}
	}
}

// checkPromlint asks the linter of Debian's Prometheus about the daemon's page.
func checkPromlint(t *testing.T, s *scene) {
	t.Helper()
	promtool := tool(t, "promtool")
	var text string
	if err := get(t, "http://"+s.main+"/metrics", &text); err != nil {
		t.Fatalf("scrape: %v", err)
	}
	// go_memstats_alloc_bytes_total and its like are client_golang's own; ours is
	// what is linted.
	var ours bytes.Buffer
	for line := range strings.Lines(text) {
		if strings.Contains(line, "admitd_") {
			ours.WriteString(line)
		}
	}
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin = &ours
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
