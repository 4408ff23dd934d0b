package daemon

import (
	"encoding/json"
	"sync"

	"github.com/admitd/admitd/config"
)

// worded remembers the settings of ingresses in words, which take a while to make
// and are asked for every second. The zero value is ready.
type worded struct {
	mu  sync.Mutex // guards the field below
	all map[string]wordedIngress
}

type wordedIngress struct {
	in   *config.Ingress // which never changes
	text any
}

// of returns the settings of an ingress.
func (w *worded) of(in *config.Ingress) any {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, ok := w.all[in.Name]; ok && old.in == in {
		return old.text
	}
	if w.all == nil {
		w.all = map[string]wordedIngress{}
	}
	w.all[in.Name] = wordedIngress{in, settingsOf(in)}
	return w.all[in.Name].text
}

// settingsOf is the part of an ingress that a patch can change, as a patch: it can
// be sent back.
func settingsOf(in *config.Ingress) any {
	one := config.Config{Ingresses: []config.Ingress{*in}}
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
	whole := doc.Ingresses[0]
	out := map[string]any{
		"mode":        whole["mode"],
		"requests":    some(whole["requests"], "rate", "burstSeconds", "queueDepth"),
		"connections": some(whole["connections"], "rate", "burstSeconds", "queueDepth", "maxOpen"),
	}
	keys := []string{"rate", "burstSeconds", "limit", "queue"}
	if all, ok := whole["partitions"].(map[string]any); ok {
		parts := some(all, "total")
		parts["default"] = some(all["default"], keys...)
		if list, _ := all["named"].([]any); len(list) > 0 {
			named := map[string]any{}
			for _, e := range list {
				if entry, ok := e.(map[string]any); ok {
					name, _ := entry["name"].(string)
					named[name] = some(entry, keys...)
				}
			}
			parts["named"] = named
		}
		out["partitions"] = parts
	}
	return out
}

// some returns what a mapping says of some of its keys.
func some(v any, keys ...string) map[string]any {
	out := map[string]any{}
	m, _ := v.(map[string]any)
	for _, key := range keys {
		if value, ok := m[key]; ok {
			out[key] = value
		}
	}
	return out
}
