package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/config"
)

const patchable = `tracing: { endpoint: "http://u:geheim@c:1", headers: { A: geheim } }
ingresses:
  - { name: first, listen: 127.0.0.1:1, backend: http://h:1 }
  - name: orders
    listen: 127.0.0.1:8462
    backend: http://127.0.0.1:9000
    requests: { rate: 10, queueDepth: 3, exempt: { cidrs: 10.0.0.0/8 } }
    partitions:
      by: client
      named:
        - { name: a, rate: 5, limit: { algorithm: aimd, minLimit: 7 } }
        - { name: b }
`

// A patch changes what it names and nothing else, secrets included.
func TestPatch(t *testing.T) {
	c := mustParse(t, patchable)
	want := mustParse(t, patchable)
	in := &want.Ingresses[1]
	in.Mode = "shadow"
	in.Requests.Rate = 20
	in.Connections.MaxOpen = 5
	in.Partitions.Default.Queue = config.Queue{Depth: 9}
	in.Partitions.Named[0].Limit.MinLimit = 8
	in.Partitions.Named[1].Limit = config.Limit{Algorithm: "fixed", Limit: 4, Window: in.Partitions.Named[1].Limit.Window, Fallback: config.Fallback{Limit: 20}}
	got, err := c.Patch("orders", []byte(`{"mode": "shadow", "requests": {"rate": 20}, "connections": {"maxOpen": 5},
		"partitions": {"default": {"queue": {"depth": 9}}, "named": [
			{"name": "b", "limit": {"algorithm": "fixed", "limit": 4}}, {"name": "a", "limit": {"minLimit": 8}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(samePrefix)); diff != "" {
		t.Errorf("patched (-want +got):\n%s", diff)
	}
	if got.Tracing.Headers["A"].Reveal() != "geheim" || got.Tracing.Endpoint != "http://u:geheim@c:1" {
		t.Error("the patch lost a secret")
	}
	if diff := cmp.Diff(mustParse(t, patchable), c, cmp.Comparer(samePrefix)); diff != "" {
		t.Errorf("the patch changed the original:\n%s", diff)
	}
}

// A patch is validated like a file, and reaches runtime settings only.
func TestPatchProblems(t *testing.T) {
	cases := map[string]struct{ ingress, patch, want string }{
		"no ingress":   {"none", `{}`, `patch: there is no ingress "none"`},
		"no mapping":   {"orders", `[]`, `patch:1: must be a mapping of keys`},
		"syntax":       {"orders", `{`, `patch:1: is not valid YAML: could not find flow mapping end token '}'`},
		"listen":       {"orders", `{"listen": "127.0.0.1:2"}`, `patch:1: ingresses[1].listen: cannot be changed while the gate runs, only in the file`},
		"exempt":       {"orders", `{"requests": {"exempt": {}}}`, `patch:1: ingresses[1].requests.exempt: cannot be changed while the gate runs, only in the file`},
		"unknown":      {"orders", `{"requests": {"rat": 1}}`, `patch:1: ingresses[1].requests.rat: unknown key, did you mean "rate"?`},
		"range":        {"orders", `{"requests": {"rate": -1}}`, `patch:1: ingresses[1].requests.rate: must be at least 0 (-1)`},
		"type":         {"orders", `{"requests": 1}`, `patch:1: ingresses[1].requests: must be a mapping (1)`},
		"enum":         {"orders", `{"mode": "shadwo"}`, `patch:1: ingresses[1].mode: must be enforce, shadow or off, did you mean "shadow"? (shadwo)`},
		"relation":     {"orders", `{"partitions": {"named": [{"name": "a", "limit": {"minLimit": 2000}}]}}`, `patch:1: ingresses[1].partitions.named[0].limit.minLimit: must be at most maxLimit (2000)`},
		"no partition": {"orders", `{"partitions": {"named": [{"name": "c"}]}}`, `patch:1: ingresses[1].partitions.named: there is no partition of that name (c)`},
		"null":         {"orders", `{"requests": {"rate": null}}`, `patch:1: ingresses[1].requests.rate: must not be null: leave it out, or say a value`},
		"elsewhere":    {"orders", `{"rate": 1}`, `patch:1: ingresses[1].rate: unknown key here: it belongs into another object, such as connections.rate`},
		"none":         {"orders", `{"requests": {"rate": "none"}}`, `patch:1: ingresses[1].requests.rate: must be a number or unlimited (none)`},
		"no mappings":  {"orders", `{"partitions": {"named": {"a": 1}}}`, `patch:1: ingresses[1].partitions.named: must hold mappings that begin with the name of a partition (1)`},
		"no name":      {"orders", `{"partitions": {"named": [{"rate": 1}]}}`, `patch:1: ingresses[1].partitions.named: must hold mappings that begin with the name of a partition (a mapping)`},
	}
	c := mustParse(t, patchable)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := c.Patch(tc.ingress, []byte(tc.patch))
			if err == nil || err.Error() != tc.want {
				t.Errorf("Patch = %v;\nwant %s", err, tc.want)
			}
		})
	}
}

// What would change nothing since other settings keep it from having an effect is a problem;
// what changes nothing because it is so already is none: an answer can be sent back.
func TestPatchesThatHaveNoEffect(t *testing.T) {
	c := mustParse(t, `ingresses:
  - { name: one, listen: ":1", backend: "http://h:1", partitions: { by: client, share: one, named: [ { name: a } ] } }
  - { name: own, listen: ":2", backend: "http://h:2", partitions: { by: client, share: own, named: [ { name: a } ] } }
  - { name: lead, listen: ":3", backend: "http://h:3", partitions: { by: client, named: [ { name: a }, { name: f, limit: { algorithm: fixed } } ] } }
  - { name: second, listen: ":4", backend: "http://H:3", partitions: { by: client } }
  - { name: alone, listen: ":5", backend: "http://h:5" }`)
	const one, common = "has no effect with share: one", "only maxLimit has an effect with share: backend"
	for patch, want := range map[string]string{
		`one {"partitions":{"named":{"a":{"limit":{"maxLimit":3}}}}}`:                   one,
		`one {"partitions":{"default":{"limit":{"maxLimit":30}}}}`:                      "",
		`own {"partitions":{"named":{"a":{"limit":{"minLimit":3}}}}}`:                   "",
		`lead {"partitions":{"named":{"a":{"limit":{"minLimit":3}}}}}`:                  common,
		`lead {"partitions":{"named":{"a":{"limit":{"maxLimit":3}}}}}`:                  "",
		`lead {"partitions":{"named":{"f":{"limit":{"limit":3}}}}}`:                     "",
		`lead {"partitions":{"default":{"limit":{"minLimit":3}}}}`:                      "",
		`lead {"partitions":{"default":{"limit":{"window":{"min":"2s","max":"3s"}}}}}`:  "only initialLimit, minLimit, maxLimit and fallback",
		`second {"partitions":{"default":{"limit":{"minLimit":3}}}}`:                    `as ingress "lead" says it`,
		`second {"partitions":{"default":{"limit":{"maxLimit":30}}}}`:                   "",
		`own {"partitions":{"named":{"a":{"weight":3}}}}`:                               "share nothing",
		`own {"partitions":{"default":{"maxShare":0.5}}}`:                               "share nothing",
		`own {"partitions":{"total":9,"default":{"maxShare":0.5}}}`:                     "",
		`alone {"partitions":{"default":{"weight":3}}}`:                                 "share nothing",
		`lead {"partitions":{"named":{"a":{"weight":3}}}}`:                              "",
		`one {"partitions":{"default":{"maxShare":0.5}}}`:                               "",
		`alone {"partitions":{"default":{"limit":{"window":{"min":"2s","max":"3s"}}}}}`: "",
	} {
		name, document, _ := strings.Cut(patch, " ")
		_, err := c.Patch(name, []byte(document))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", patch, err, want)
		}
	}
	for i := range c.Ingresses {
		in := &c.Ingresses[i]
		b, err := json.Marshal(in.Runtime())
		if err != nil {
			t.Fatal(err)
		}
		same, err := c.Patch(in.Name, b)
		if err != nil || !cmp.Equal(same, c, cmp.Comparer(samePrefix)) {
			t.Errorf("the settings of %s, sent back: %v, and are not what they were", in.Name, err)
		}
	}
}
