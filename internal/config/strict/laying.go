package strict

import (
	"maps"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// ForgetLines has problems be shown without the lines that were read.
func (r *Report) ForgetLines() { r.lines = map[string]int{} }

// PlainValues reads a document as plain values: mappings, lists, text, numbers. ok
// is false when nothing of it can be used; the report says why.
func (r *Report) PlainValues(b []byte) (values map[string]any, ok bool) {
	d := &document{Report: r, anchors: map[string]ast.Node{}}
	m, err := d.Unmarshal(b)
	return m, err == nil && !d.unreadable
}

// Allowed says what may be patched below a key: nil = everything.
type Allowed map[string]Allowed

// Patch lays the values of one mapping over old.
func (r *Report) Patch(path string, may Allowed, values, old map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		p := Join(path, k)
		below, ok := may[k]
		_, known := old[k]
		if known && may != nil && !ok {
			r.Add(p, "cannot be changed while the gate runs, only in the file", nil)
			continue
		}
		if values[k] == nil {
			r.Add(p, "must not be null: leave it out, or say a value", nil)
			continue
		}
		if in := may.holding(k); !known && in != "" {
			r.Add(p, "unknown key here: it belongs into another object, such as "+in+"."+k, nil)
			continue
		}
		old[k] = r.patched(p, below, values[k], old[k])
	}
}

// holding returns the first key below which a key may be patched, "" when there is none.
func (a Allowed) holding(key string) string {
	for _, in := range slices.Sorted(maps.Keys(a)) {
		if _, ok := a[in][key]; ok {
			return in
		}
	}
	return ""
}

// patched returns v laid over the old value.
func (r *Report) patched(path string, may Allowed, v, old any) any {
	switch was := old.(type) {
	case map[string]any:
		m, ok := v.(map[string]any)
		if a := m["algorithm"]; !ok || a != nil && a != was["algorithm"] {
			return v
		}
		r.Patch(path, may, m, was)
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
func (r *Report) patchNamed(path string, e any, list []any) {
	m, ok := e.(map[string]any)
	name, named := m["name"].(string)
	if !ok || !named {
		r.Add(path, "must hold mappings that begin with the name of a partition", e)
		return
	}
	for i, was := range list {
		if w, ok := was.(map[string]any); ok && w["name"] == name {
			r.Patch(Element(path, i), nil, m, w)
			return
		}
	}
	r.Add(path, "there is no partition of that name", name)
}
