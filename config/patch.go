package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// Patch returns a copy of c in which the runtime settings of one ingress are
// replaced: mode, rates, bursts, queues, bounds and limits. document is a JSON
// or YAML mapping that holds only the keys to change, spelled as in the file;
// named partitions are found by their name, and a limit whose algorithm
// changes is replaced as a whole. What comes out is validated like a file; an
// error is of type [Problems], under the name "patch". c is not changed.
func (c *Config) Patch(ingress string, document []byte) (*Config, error) {
	r := newReport("patch")
	i := slices.IndexFunc(c.Ingresses, func(in Ingress) bool { return in.Name == ingress })
	if i < 0 {
		r.atLine(0, "", fmt.Sprintf("there is no ingress %q", ingress))
		return nil, r.problems()
	}
	patch, ok := plainValues(r, document)
	if !ok {
		return nil, r.problems()
	}
	b := renderer{reveal: true}
	if err := b.value(reflect.ValueOf(c).Elem()); err != nil {
		return nil, err
	}
	whole, _ := plainValues(newReport("effective"), b.Bytes())
	list, _ := whole["ingresses"].([]any)
	if len(list) != len(c.Ingresses) {
		return nil, fmt.Errorf("config: %d ingresses are rendered, want %d", len(list), len(c.Ingresses))
	}
	path := element("ingresses", i)
	old, _ := list[i].(map[string]any)
	r.patch(path, runtimeKeys(), patch, old)
	r.lines = map[string]int{} // of two documents; neither is what the caller wrote
	return assemble(r, whole)
}

// plainValues reads a document as plain values.
func plainValues(r *report, b []byte) (map[string]any, bool) {
	d := &document{report: r, anchors: map[string]ast.Node{}}
	m, err := d.Unmarshal(b)
	return m, err == nil && !d.unreadable
}

// allowed says what may be patched below a key: nil = everything.
type allowed map[string]allowed

// runtimeKeys are the keys of an ingress that may change while it runs without
// the file.
func runtimeKeys() allowed {
	rate := func(more ...string) allowed {
		a := allowed{"rate": nil, "burstSeconds": nil, "queueDepth": nil}
		for _, k := range more {
			a[k] = nil
		}
		return a
	}
	return allowed{
		"mode": nil, "requests": rate(), "connections": rate("maxOpen"),
		"partitions": {"total": nil, "default": nil, "named": nil},
	}
}

// patch lays the values of one mapping over old.
func (r *report) patch(path string, may allowed, values, old map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		p := join(path, k)
		below, ok := may[k]
		if _, known := old[k]; known && may != nil && !ok {
			r.add(p, "cannot be changed while the gate runs, only in the file", nil)
			continue
		}
		old[k] = r.patched(p, below, values[k], old[k])
	}
}

// patched returns v laid over the old value.
func (r *report) patched(path string, may allowed, v, old any) any {
	switch was := old.(type) {
	case map[string]any:
		m, ok := v.(map[string]any)
		if a := m["algorithm"]; !ok || a != nil && a != was["algorithm"] {
			return v
		}
		r.patch(path, may, m, was)
		return was
	case []any:
		l, ok := v.([]any)
		if !ok {
			return v
		}
		for _, e := range l {
			r.patchNamed(path, e, was)
		}
		return was
	}
	return v
}

// patchNamed lays e over the element of the list that has its name.
func (r *report) patchNamed(path string, e any, list []any) {
	m, ok := e.(map[string]any)
	name, named := m["name"].(string)
	if !ok || !named {
		r.add(path, "must hold mappings that begin with the name of a partition", e)
		return
	}
	for i, was := range list {
		if w, ok := was.(map[string]any); ok && w["name"] == name {
			r.patch(element(path, i), nil, m, w)
			return
		}
	}
	r.add(path, "there is no partition of that name", name)
}
