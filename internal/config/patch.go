package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/admitd/admitd/internal/config/strict"
)

// Patch returns a copy of c in which the runtime settings of one ingress are
// replaced: mode, rates, bursts, queues, bounds and limits. document is a JSON
// or YAML mapping that holds only the keys to change, spelled as in the file;
// named partitions are a mapping by their names, or a list as in the file, and a limit
// whose algorithm changes is replaced as a whole. What comes out is validated like a
// file, and what would change nothing because of other settings is a problem; an
// error is of type [Problems], under the name "patch". c is not changed.
func (c *Config) Patch(ingress string, document []byte) (*Config, error) {
	next, r, err := c.patch(ingress, document)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(c.Ingresses, func(in Ingress) bool { return in.Name == ingress })
	checkInForce(r, c, next, i)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return next, nil
}

// patch is [Config.Patch] without the check that all of it has an effect.
func (c *Config) patch(ingress string, document []byte) (*Config, *strict.Report, error) {
	r := reportOn("patch")
	i := slices.IndexFunc(c.Ingresses, func(in Ingress) bool { return in.Name == ingress })
	if i < 0 {
		r.AtLine(0, "", fmt.Sprintf("there is no ingress %q", ingress))
		return nil, nil, r.Err()
	}
	patch, ok := r.PlainValues(document)
	if !ok {
		return nil, nil, r.Err()
	}
	listNamed(patch)
	b, err := strict.Render(c, Words, true)
	if err != nil {
		return nil, nil, err
	}
	whole, _ := reportOn("effective").PlainValues(b)
	list, _ := whole["ingresses"].([]any)
	if len(list) != len(c.Ingresses) {
		return nil, nil, fmt.Errorf("config: %d ingresses are rendered, want %d", len(list), len(c.Ingresses))
	}
	path := element("ingresses", i)
	old, _ := list[i].(map[string]any)
	r.Patch(path, runtimeKeys(), patch, old)
	r.ForgetLines() // of two documents; neither is what the caller wrote
	next, err := assemble(r, whole)
	return next, r, err
}

// listNamed spells named partitions as the file does, where a patch has a mapping.
func listNamed(patch map[string]any) {
	parts, _ := patch["partitions"].(map[string]any)
	named, ok := parts["named"].(map[string]any)
	if !ok {
		return
	}
	list := make([]any, 0, len(named))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if entry, ok := named[name].(map[string]any); ok {
			entry["name"] = name
		}
		list = append(list, named[name])
	}
	parts["named"] = list
}

// checkInForce reports limits of an ingress that differ in what nobody looks at.
func checkInForce(r *strict.Report, old, next *Config, i int) {
	was, in := &old.Ingresses[i].Partitions, &next.Ingresses[i]
	parts, path := &in.Partitions, element("ingresses", i)+".partitions"
	differs := func(a, b Limit, seen ...func(l *Limit) *int) bool {
		for _, field := range seen {
			*field(&a) = *field(&b)
		}
		return a.Algorithm == b.Algorithm && a != b
	}
	most := func(l *Limit) *int { return &l.MaxLimit }
	first := func(l *Limit) *int { return &l.InitialLimit }
	least := func(l *Limit) *int { return &l.MinLimit }
	fallback := func(l *Limit) *int { return &l.Fallback.Limit }
	common := parts.Share == ShareBackend && in.Partitioned()
	if !common && parts.Share != ShareOne && parts.Total == 0 {
		shared := func(at string, was, now Partition) {
			if was.MaxShare != now.MaxShare || was.Weight != now.Weight {
				r.Add(at, "weight and maxShare have no effect: the partitions share nothing, neither a limit nor a total", nil)
			}
		}
		shared(path+".default", was.Default, parts.Default)
		for j := range parts.Named {
			shared(element(path+".named", j), was.Named[j].Form(), parts.Named[j].Form())
		}
	}
	if l := &parts.Default.Limit; common && l.Algorithm == "knee" {
		switch lead := next.leadOf(i); {
		case lead != i:
			if differs(was.Default.Limit, *l, most) {
				r.Add(path+".default.limit", fmt.Sprintf("only maxLimit has an effect: the limit is common to all who share the backend, and as ingress %q says it", next.Ingresses[lead].Name), nil)
			}
		case differs(was.Default.Limit, *l, most, first, least, fallback):
			r.Add(path+".default.limit", "only initialLimit, minLimit, maxLimit and fallback have an effect on a limit that partitions share", nil)
		}
	}
	for j := range parts.Named {
		before, now := was.Named[j].Limit, parts.Named[j].Limit
		switch at := element(path+".named", j) + ".limit"; {
		case parts.Share == ShareOne && before != now:
			r.Add(at, "has no effect with share: one: change the limit of default, or override the key", nil)
		case common && now.Algorithm == "knee" && (before.MinLimit != now.MinLimit || differs(before, now, most, first, least)):
			r.Add(at, "only maxLimit has an effect with share: backend, the limit itself is common to all partitions", nil)
		}
	}
}

// leadOf returns which ingress says what the common limit of an ingress is: the first of
// those that share its backend.
func (c *Config) leadOf(i int) int {
	for j := range c.Ingresses[:i] {
		if o := &c.Ingresses[j]; o.Partitions.Share == ShareBackend && o.Backend != "" && o.BackendAddress() == c.Ingresses[i].BackendAddress() {
			return j
		}
	}
	return i
}

// runtimeKeys are the keys of an ingress that may change while it runs without
// the file; nil = everything below.
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

// Runtime returns the settings of an ingress that a patch can change, with named
// partitions by their names: it is a patch itself.
func (in *Ingress) Runtime() map[string]any {
	one := Config{Ingresses: []Ingress{*in}}
	b, err := one.Effective()
	if err != nil {
		return nil
	}
	var doc struct {
		Ingresses []map[string]any `json:"ingresses"`
	}
	if err := json.Unmarshal(b, &doc); err != nil || len(doc.Ingresses) != 1 {
		return nil
	}
	out, _ := allowed(doc.Ingresses[0], runtimeKeys()).(map[string]any)
	parts, _ := out["partitions"].(map[string]any)
	list, _ := parts["named"].([]any)
	delete(parts, "named")
	named := map[string]any{}
	for _, e := range list {
		if entry, ok := e.(map[string]any); ok {
			name, _ := entry["name"].(string)
			delete(entry, "name")
			named[name] = entry
		}
	}
	if len(named) > 0 {
		parts["named"] = named
	}
	return out
}

// allowed returns what of a mapping may be patched.
func allowed(v any, may strict.Allowed) any {
	m, ok := v.(map[string]any)
	if may == nil || !ok {
		return v
	}
	out := map[string]any{}
	for key, below := range may {
		if value, ok := m[key]; ok {
			out[key] = allowed(value, below)
		}
	}
	return out
}
