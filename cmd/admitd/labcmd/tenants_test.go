package labcmd_test

import (
	"os"
	"strings"
	"testing"

	"github.com/admitd/admitd/cmd/admitd/labcmd"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/internal/testkit/configured"
)

// The README's own lines for tenants, as they stand there, serve twenty tenants who ask
// for twice what the backend can do as well as no partitions would: each tenant's limit
// found the capacity for itself once, and nobody was answered in time.
func TestReadmeServesTenants(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "## Configuration in five lines")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok || !strings.Contains(text, "header:X-Tenant") {
		t.Fatalf("the README has no five lines with tenants: %q", text)
	}
	head := "ingresses:\n  - name: orders\n    listen: 127.0.0.1:1\n    backend: http://127.0.0.1:2\n"
	bare := configured.Ingress(t, head)
	tenants := configured.Ingress(t, head+"    "+strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")+"\n")
	tenants.Requests.Rate = 0 // the rate of the example would keep the overload away from the limits
	for name, more := range map[string]string{
		"twice":     "load: [{ at: 0s, load: 0.5 }, { at: 10s, load: 2 }]\n",
		"cold":      "load: [{ at: 0s, load: 1.5 }]\n",
		"brown-out": "load: [{ at: 0s, load: 0.8 }]\nhealth: [{ at: 0s }, { at: 10s, slow: 3 }]\n",
	} {
		t.Run(name, func(t *testing.T) {
			s, err := scenario.Parse([]byte("name: x\nabout: y\nfor: 40s\nobjective: 300ms\ntimeout: 300ms\ntenants: { count: 20 }\nbackend: { workers: 8, service: { mean: 50ms } }\nwindows: [{ name: late, from: 20s, to: 40s }]\n" + more))
			if err != nil {
				t.Fatal(err)
			}
			one, _ := s.Variant(s.Variants[0].Name)
			good := func(in *config.Ingress) (n float64) {
				c, err := labcmd.Contender(in)
				if err != nil {
					t.Fatal(err)
				}
				const seeds = 3
				for seed := range uint64(seeds) {
					r, err := lab.Play(one, c, seed, lab.PlayOptions{})
					if err != nil {
						t.Fatal(err)
					}
					n += float64(r.Windows[0].Good) / seeds
				}
				return n
			}
			with, without := good(tenants), good(bare)
			t.Logf("good answers: %.0f with tenants, %.0f without", with, without)
			if with < 0.95*without || name == "twice" && with < 0.95*20*8/0.05 {
				t.Errorf("%.0f good answers with tenants, %.0f without; want 0.95 of these, and of the capacity where the overload comes after a calm time", with, without)
			}
		})
	}
}
