package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/admitd/admitd/internal/config"
)

// examples returns every example configuration of the repository.
func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	nested, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, nested...)
	for _, must := range []string{"minimal.yaml", "http-tenants.yaml", "sidecar.yaml", "systemd/admitd.yaml"} {
		found := false
		for _, f := range files {
			found = found || strings.HasSuffix(filepath.ToSlash(f), "/examples/"+must)
		}
		if !found {
			t.Errorf("examples/%s is missing", must)
		}
	}
	return files
}

// Each example loads, and survives being rendered.
func TestExamplesLoad(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) { roundTrip(t, file) })
	}
}

// The unit's environment is accepted with its configuration.
func TestSystemdUnit(t *testing.T) {
	unit, err := os.ReadFile("../../examples/systemd/admitd.service")
	if err != nil {
		t.Fatal(err)
	}
	var env []string
	for l := range strings.Lines(string(unit)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(l), "Environment="); ok {
			env = append(env, v)
		}
	}
	if len(env) == 0 {
		t.Fatal("the unit sets no environment")
	}
	c, err := config.Load("../../examples/systemd/admitd.yaml", env)
	if err != nil {
		t.Fatal(err)
	}
	if c.Admin.TokenFile != "%d/token" {
		t.Errorf("admin.tokenFile = %q; want the unit's credential", c.Admin.TokenFile)
	}
}

// instance reads YAML as a validator in an editor does: with another parser
// than ours.
func instance(t *testing.T, content []byte) any {
	t.Helper()
	m, err := yaml.Parser().Unmarshal(content)
	if err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The schema accepts every example, every good file, and the effective
// configuration of each. A key without a value is the exception: the daemon
// takes it for its default, and an editor underlines it, for it was mostly
// forgotten.
func TestSchemaAccepts(t *testing.T) {
	s := compiled(t)
	for _, file := range append(examples(t), corpus(t, "*.good.yml")...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := config.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			empty := strings.Contains(file, "nulls_are_defaults")
			if err := s.Validate(instance(t, bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")))); (err != nil) != empty {
				t.Errorf("%s: without values %v:\n%v", file, empty, err)
			}
			c, err := config.Parse(file, content, nil)
			if err != nil {
				t.Fatal(err)
			}
			effective, err := c.Effective()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(instance(t, effective)); err != nil {
				t.Errorf("effective %s:\n%v", file, err)
			}
		})
	}
}

// The schema refuses what an editor should underline.
func TestSchemaRefuses(t *testing.T) {
	s := compiled(t)
	for _, name := range []string{
		"unknown_keys", "enums", "limit_keys", "wrong_protocol", "wrong_types", "out_of_range", "protocol", "units",
		"ingresses_mapping", "no_ingresses", "empty_ingresses", "null_element",
	} {
		t.Run(name, func(t *testing.T) {
			content, err := config.Read(filepath.Join("testdata", name+".bad.yml"))
			if err != nil {
				t.Fatal(err)
			}
			content = bytes.ReplaceAll(content, []byte(".nan"), []byte("x"))
			content = bytes.ReplaceAll(content, []byte(".inf"), []byte("x"))
			if s.Validate(instance(t, content)) == nil {
				t.Error("accepted")
			}
		})
	}
}

// One mistake is one message: there were three, of every form that a value may
// have and of null.
func TestSchemaTellsOneThing(t *testing.T) {
	s := compiled(t)
	for mistake, want := range map[string]string{
		"drainTimeout: soon":                               "/ingresses/0/drainTimeout: 'soon' does not match pattern",
		"drainTimeout: 5":                                  "/ingresses/0/drainTimeout: maximum: got 5, want 0",
		"mode: loud":                                       "/ingresses/0/mode: value must be one of",
		"requests: { rate: many }":                         "/ingresses/0/requests/rate: 'many' does not match pattern '^unlimited$'",
		"requests: 5":                                      "/ingresses/0/requests: got number, want object",
		"partitions: { by: 5 }":                            "/ingresses/0/partitions/by: got number, want string or array",
		"partitions: { default: { queue: long } }":         "/ingresses/0/partitions/default/queue: 'long' does not match pattern '^auto$'",
		"partitions: { default: { queue: { depth: x } } }": "/ingresses/0/partitions/default/queue/depth: got string, want integer",
		"http: { maxBody: huge }":                          "/ingresses/0/http",
		"colour: red":                                      "/ingresses/0: additional properties 'colour' not allowed",
		"partitions: { default: { limit: { algorithm: fixed, limit: four }} }": "/ingresses/0/partitions/default/limit",
	} {
		err := s.Validate(instance(t, []byte("ingresses:\n  - { name: a, listen: 127.0.0.1:1, backend: 'http://127.0.0.1:2', "+mistake+" }\n")))
		if err == nil {
			t.Errorf("%s: accepted", mistake)
			continue
		}
		var got []string // what is wrong, without what follows from it
		for line := range strings.Lines(err.Error()) {
			if at, what, found := strings.Cut(strings.TrimSpace(line), "': "); found && what != "validation failed" {
				got = append(got, strings.TrimPrefix(at, "- at '")+": "+what)
			}
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: %q; want one message, %s", mistake, got, want)
		}
	}
}

// The defaults that the schema promises are those that are applied.
func TestSchemaDefaults(t *testing.T) {
	var s struct {
		Defs map[string]struct {
			Properties map[string]struct {
				Default any `json:"default"`
			} `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(config.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load("testdata/minimal.good.yml", nil)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	var effective struct {
		Admin     map[string]any   `json:"admin"`
		Ingresses []map[string]any `json:"ingresses"`
	}
	if err := json.Unmarshal(rendered, &effective); err != nil {
		t.Fatal(err)
	}
	checks := 0
	for def, got := range map[string]map[string]any{"Admin": effective.Admin, "Ingress": effective.Ingresses[0]} {
		for key, p := range s.Defs[def].Properties {
			if p.Default == nil || key == "listen" && def == "Ingress" || key == "backend" {
				continue
			}
			checks++
			if got[key] != p.Default {
				t.Errorf("%s.%s = %v; the schema says %v", def, key, got[key], p.Default)
			}
		}
	}
	if checks < 8 {
		t.Errorf("only %d defaults were compared", checks)
	}
}
