package config

import (
	"fmt"
	"slices"

	"github.com/admitd/admitd/config/strict"
)

// Patch returns a copy of c in which the runtime settings of one ingress are
// replaced: mode, rates, bursts, queues, bounds and limits. document is a JSON
// or YAML mapping that holds only the keys to change, spelled as in the file;
// named partitions are found by their name, and a limit whose algorithm
// changes is replaced as a whole. What comes out is validated like a file; an
// error is of type [Problems], under the name "patch". c is not changed.
func (c *Config) Patch(ingress string, document []byte) (*Config, error) {
	r := reportOn("patch")
	i := slices.IndexFunc(c.Ingresses, func(in Ingress) bool { return in.Name == ingress })
	if i < 0 {
		r.AtLine(0, "", fmt.Sprintf("there is no ingress %q", ingress))
		return nil, r.Err()
	}
	patch, ok := r.PlainValues(document)
	if !ok {
		return nil, r.Err()
	}
	b, err := strict.Render(c, Words, true)
	if err != nil {
		return nil, err
	}
	whole, _ := reportOn("effective").PlainValues(b)
	list, _ := whole["ingresses"].([]any)
	if len(list) != len(c.Ingresses) {
		return nil, fmt.Errorf("config: %d ingresses are rendered, want %d", len(list), len(c.Ingresses))
	}
	path := element("ingresses", i)
	old, _ := list[i].(map[string]any)
	r.Patch(path, runtimeKeys(), patch, old)
	r.ForgetLines() // of two documents; neither is what the caller wrote
	return assemble(r, whole)
}

// runtimeKeys are the keys of an ingress that may change while it runs without
// the file.
func runtimeKeys() strict.Allowed {
	rate := func(more ...string) strict.Allowed {
		a := strict.Allowed{"rate": nil, "burstSeconds": nil, "queueDepth": nil}
		for _, k := range more {
			a[k] = nil
		}
		return a
	}
	return strict.Allowed{
		"mode": nil, "requests": rate(), "connections": rate("maxOpen"),
		"partitions": {"total": nil, "default": nil, "named": nil},
	}
}
