package dashboards_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const monitoring = "../examples/monitoring"

// read decodes a YAML file of examples/monitoring.
func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(monitoring, name))
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Prometheus accepts the example configuration, the rules it names included.
func TestPrometheusExample(t *testing.T) {
	var c struct {
		Files []string `yaml:"rule_files"`
		Jobs  []struct {
			Name string `yaml:"job_name"`
		} `yaml:"scrape_configs"`
	}
	read(t, "prometheus.yml", &c)
	if len(c.Files) != 1 || len(c.Jobs) != 1 || c.Jobs[0].Name != "admitd" {
		t.Fatalf("prometheus.yml = %+v; want one file of rules and the job admitd, which panels look for", c)
	}
	if _, err := os.Stat(filepath.Join(monitoring, c.Files[0])); err != nil {
		t.Errorf("rules: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), tool(t, "promtool"), "check", "config", filepath.Join(monitoring, "prometheus.yml"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}

// What the compose file mounts exists, where Prometheus and Grafana look for it
// inside, and what the provisioning takes from the environment is set.
func TestComposeExample(t *testing.T) {
	var c struct {
		Services map[string]struct {
			Image       string
			Build       string
			Environment map[string]string
			Command     []string
			Volumes     []string
		}
		Volumes map[string]any
	}
	read(t, "compose.yml", &c)
	inside := map[string]string{} // host path by path in the container
	for name, s := range c.Services {
		if (s.Image == "") == (s.Build == "") {
			t.Errorf("%s: image %q and build %q; want one of them", name, s.Image, s.Build)
		}
		if s.Image != "" && !regexp.MustCompile(`:v?\d+\.\d+\.\d+$`).MatchString(s.Image) {
			t.Errorf("%s: %s is not pinned to a version", name, s.Image)
		}
		for _, v := range s.Volumes {
			host, rest, _ := strings.Cut(v, ":")
			path, _, _ := strings.Cut(rest, ":")
			if !strings.HasPrefix(host, ".") {
				if _, ok := c.Volumes[host]; !ok {
					t.Errorf("%s: there is no volume %q", name, host)
				}
				continue
			}
			inside[path] = filepath.Join(monitoring, host)
			if _, err := os.Stat(inside[path]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	grafana := c.Services["grafana"].Environment
	if dir := inside[grafana["ADMITD_BOARDS"]]; dir != filepath.Clean("../dashboards/boards") {
		t.Errorf("ADMITD_BOARDS leads to %q; want the boards", dir)
	}
	for _, file := range []string{"datasources/prometheus.yml", "dashboards/admitd.yml"} {
		text, err := os.ReadFile(filepath.Join(monitoring, "grafana/provisioning", file))
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		for _, m := range regexp.MustCompile(`\$\{(\w+)\}`).FindAllStringSubmatch(string(text), -1) {
			if grafana[m[1]] == "" {
				t.Errorf("%s asks for %s, which compose.yml does not set", file, m[1])
			}
		}
	}
	// The rules are mounted where prometheus.yml, also mounted, says they are.
	const prometheus = "/admitd/examples/monitoring/prometheus.yml"
	if inside[prometheus] == "" || inside[filepath.Join(filepath.Dir(prometheus), "../../dashboards/rules")] == "" {
		t.Errorf("mounts %v; want prometheus.yml and the rules in their places", inside)
	}
}
