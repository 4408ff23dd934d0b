package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scrapeEvery is how often Prometheus reads the gates here.
const scrapeEvery = 400 * time.Millisecond

// sooner is how many times shorter everything that the rules wait for is here.
const sooner = 20

// prometheus is a server of its own.
type prometheus struct {
	address string
	cmd     *exec.Cmd
}

// newPrometheus starts one that scrapes the gates and knows the rules of the
// repository, with their times shortened.
func newPrometheus(ctx context.Context, binary, dir, rules string, gates ...string) (*prometheus, error) {
	text, err := os.ReadFile(rules)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "rules.yml"), []byte(hasten(string(text))), 0o600); err != nil {
		return nil, err
	}
	targets := `"` + strings.Join(gates, `", "`) + `"`
	config := fmt.Sprintf("global: { scrape_interval: %[1]v, scrape_timeout: %[1]v, evaluation_interval: 500ms }\nrule_files: [rules.yml]\n"+
		"scrape_configs: [{ job_name: admitd, static_configs: [{ targets: [%[2]s] }] }]\n", scrapeEvery, targets)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	p := &prometheus{address: freePort()}
	log, err := os.Create(filepath.Join(dir, "prometheus.log"))
	if err != nil {
		return nil, err
	}
	p.cmd = exec.CommandContext(ctx, binary, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.address, "--query.lookback-delta=2s")
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, until(20*time.Second, "prometheus is ready", func() error {
		var page string
		return get(ctx, "http://"+p.address+"/-/ready", &page)
	})
}

// stop ends the server.
func (p *prometheus) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

// times finds durations in rules: ranges, offsets, and how long an alert waits.
var times = regexp.MustCompile(`\[[0-9a-z:]+\]|offset [0-9a-z]+|for: [0-9a-z]+`)

var duration = regexp.MustCompile(`([0-9]+)([smhd])`)

// hasten shortens the times of rules.
func hasten(rules string) string {
	unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	return times.ReplaceAllStringFunc(rules, func(s string) string {
		return duration.ReplaceAllStringFunc(s, func(d string) string {
			n, _ := strconv.Atoi(d[:len(d)-1]) // digits
			return fmt.Sprintf("%dms", (time.Duration(n) * unit[d[len(d)-1:]] / sooner).Milliseconds())
		})
	})
}

// point is one result of a query.
type point struct {
	labels map[string]string
	value  float64
}

// query evaluates an expression at a time.
func (p *prometheus) query(ctx context.Context, expr string, at time.Time) ([]point, error) {
	var reply struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	values := url.Values{"query": {expr}, "time": {fmt.Sprintf("%.3f", float64(at.UnixMilli())/1000)}}
	if err := get(ctx, "http://"+p.address+"/api/v1/query?"+values.Encode(), &reply); err != nil {
		return nil, fmt.Errorf("%w: %s", err, expr)
	}
	if reply.Status != "success" {
		return nil, fmt.Errorf("%s: %s", reply.Error, expr)
	}
	if reply.Data.ResultType == "scalar" {
		return nil, nil
	}
	var result []struct {
		Metric map[string]string
		Value  [2]any
	}
	if err := json.Unmarshal(reply.Data.Result, &result); err != nil {
		return nil, err
	}
	var out []point
	for _, r := range result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, point{r.Metric, v})
	}
	return out, nil
}

// scrapes returns how often the server has read a gate within the span.
func (p *prometheus) scrapes(ctx context.Context, gate string, over span) (int, error) {
	found, err := p.query(ctx, fmt.Sprintf(`sum(sum_over_time(up{instance=%q}[%dms]))`, gate, over.length().Milliseconds()), over.to)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return int(found[0].value), nil
}

// panel is one query of a board.
type panel struct{ board, title, legend, expr string }

func (p *panel) name() string { return p.board + ": " + p.title + " | " + p.legend }

// readPanels reads every query of the boards.
func readPanels(dir string) ([]panel, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no boards in %s (%w)", dir, err)
	}
	type node struct {
		Title   string
		Panels  []node
		Targets []struct{ Expr, LegendFormat string }
	}
	var out []panel
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var board node
		if err := json.Unmarshal(b, &board); err != nil {
			return nil, err
		}
		var walk func(n *node)
		walk = func(n *node) {
			for _, t := range n.Targets {
				out = append(out, panel{strings.TrimSuffix(filepath.Base(file), ".json"), n.Title, t.LegendFormat, t.Expr})
			}
			for i := range n.Panels {
				walk(&n.Panels[i])
			}
		}
		walk(&board)
	}
	return out, nil
}

// of returns the query for one ingress over a length of time.
func (p *panel) of(ingress, instance string, length time.Duration) string {
	ms := fmt.Sprintf("%dms", length.Milliseconds())
	return strings.NewReplacer("$__rate_interval", ms, "$__range", ms, " offset $offset_a", "", " offset $offset_b", "",
		"$job", ".+", "$namespace", ".*", "$pod", ".*", "$instance", instance,
		"$ingress_a", ingress, "$ingress_b", ingress, "$ingress", ingress,
		"$partition_a", ".+", "$partition_b", ".+", "$partition", ".+").Replace(p.expr)
}

// alerts returns which alerts fired at any time up to now, by name and what they are about.
func (p *prometheus) alerts(ctx context.Context, length time.Duration) ([]string, error) {
	found, err := p.query(ctx, fmt.Sprintf(`max by (alertname, ingress, listener, signal, policy, instance) (max_over_time(ALERTS{alertstate="firing"}[%ds]))`, int(length.Seconds())+1), time.Now())
	var out []string
	for _, f := range found {
		about := f.labels["ingress"]
		for _, label := range []string{"listener", "signal", "policy", "instance"} {
			if about == "" {
				about = f.labels[label]
			}
		}
		if name := f.labels["alertname"] + " " + about; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, err
}

// near reports whether a told figure is as the truth within a share of it and so much more.
func near(truth, told, share, more float64) bool {
	if math.IsNaN(truth) || math.IsNaN(told) {
		return math.IsNaN(truth) && math.IsNaN(told)
	}
	return math.Abs(truth-told) <= share*math.Abs(truth)+more
}
