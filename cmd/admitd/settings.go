package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/admitd/admitd/admin"
	"github.com/admitd/admitd/config"
)

// Config implements [admin.Settings].
func (d *daemon) Config() any {
	d.mu.RLock()
	cfg := d.cfg
	d.mu.RUnlock()
	b, err := cfg.Effective()
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return json.RawMessage(b)
}

// Reload implements [admin.Settings]: it reads the file and puts it in force.
func (d *daemon) Reload(ctx context.Context) error {
	if d.path == "" {
		return &admin.Invalid{Problems: []string{"this daemon runs on a built-in configuration"}}
	}
	content, err := config.Read(d.path)
	if err != nil {
		d.refuse([]string{err.Error()})
		return &admin.Invalid{Problems: []string{err.Error()}}
	}
	return d.load(ctx, content)
}

// load parses content and puts it in force, or keeps what runs.
func (d *daemon) load(ctx context.Context, content []byte) error {
	d.change.Lock()
	defer d.change.Unlock()
	cfg, err := config.Parse(d.path, content, d.env)
	if err == nil {
		err = d.apply(ctx, cfg)
	}
	if err != nil {
		invalid := &admin.Invalid{Problems: problemsOf(err)}
		d.refuse(invalid.Problems)
		return invalid
	}
	d.retune(cfg)
	d.metrics.Reloaded(true, time.Now())
	d.log.Info("configuration is in force", slog.String("path", d.path), slog.Int("ingresses", len(cfg.Ingresses)))
	return nil
}

// refuse notes that a configuration was refused; the running one stays.
func (d *daemon) refuse(problems []string) {
	d.mu.Lock()
	d.problems = problems
	d.mu.Unlock()
	d.metrics.Reloaded(false, time.Now())
	d.log.Error("configuration refused, the running one stays", slog.String("path", d.path), slog.Any("problems", problems))
}

// problemsOf splits an error into what an operator reads line by line.
func problemsOf(err error) []string {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return []string{err.Error()}
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return lines
}

// Patch implements [admin.Settings]: it changes one ingress until the next
// reload, validated as the file is.
func (d *daemon) Patch(ctx context.Context, name string, p admin.Patch) (before, after any, err error) {
	d.change.Lock()
	defer d.change.Unlock()
	old := d.ingress(name)
	if old == nil {
		return nil, nil, admin.ErrUnknownIngress
	}
	changed, err := d.patched(name, p)
	if err != nil {
		return nil, nil, &admin.Invalid{Problems: problemsOf(err)}
	}
	if needsRestart(old, changed) {
		return nil, nil, &admin.Invalid{Problems: []string{"only rates, bursts, queues, limits, connections and mode can change at run time"}}
	}
	d.mu.RLock()
	next := *d.cfg
	d.mu.RUnlock()
	next.Ingresses = slices.Clone(next.Ingresses)
	for i := range next.Ingresses {
		if next.Ingresses[i].Name == name {
			next.Ingresses[i] = *changed
		}
	}
	if err := d.apply(ctx, &next); err != nil {
		return nil, nil, &admin.Invalid{Problems: problemsOf(err)}
	}
	d.log.Info("runtime settings changed", slog.String("ingress", name), slog.Any("patch", p))
	return settingsOf(old), settingsOf(changed), nil
}

// settingsOf is the part of an ingress that a patch can change.
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
	out := map[string]any{}
	for _, key := range []string{"mode", "connections", "requests", "partitions"} {
		out[key] = doc.Ingresses[0][key]
	}
	return out
}

// patched merges a patch into the running configuration and validates the
// whole.
func (d *daemon) patched(name string, p admin.Patch) (*config.Ingress, error) {
	d.mu.RLock()
	cfg := d.cfg
	d.mu.RUnlock()
	b, err := cfg.Effective()
	if err != nil {
		return nil, fmt.Errorf("rendering the running configuration: %w", err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("rendering the running configuration: %w", err)
	}
	patch, err := asMap(p)
	if err != nil {
		return nil, err
	}
	list, _ := doc["ingresses"].([]any)
	for _, item := range list {
		in, _ := item.(map[string]any)
		if in["name"] == name {
			if err := mergeIngress(in, patch); err != nil {
				return nil, err
			}
		}
	}
	merged, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("merging: %w", err)
	}
	next, err := config.Parse("patch", merged, nil)
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	for i := range next.Ingresses {
		if next.Ingresses[i].Name == name {
			return &next.Ingresses[i], nil
		}
	}
	return nil, admin.ErrUnknownIngress
}

// asMap returns v as JSON would spell it.
func asMap(v any) (map[string]any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	return m, nil
}

// mergeIngress merges a patch into an ingress. Named partitions are a list in
// the configuration and keyed by name in the patch.
func mergeIngress(in, patch map[string]any) error {
	if parts, ok := patch["partitions"].(map[string]any); ok {
		if named, ok := parts["named"].(map[string]any); ok {
			section, _ := in["partitions"].(map[string]any)
			if err := mergeNamed(section, named); err != nil {
				return err
			}
			delete(parts, "named")
		}
	}
	merge(in, patch)
	return nil
}

// mergeNamed merges patches into the named partitions they are for.
func mergeNamed(section, named map[string]any) error {
	list, _ := section["named"].([]any)
	for name, p := range named {
		i := slices.IndexFunc(list, func(item any) bool {
			m, ok := item.(map[string]any)
			return ok && m["name"] == name
		})
		if i < 0 {
			return fmt.Errorf("partitions.named: there is no partition of that name (%s)", name)
		}
		target, ok1 := list[i].(map[string]any)
		change, ok2 := p.(map[string]any)
		if ok1 && ok2 {
			merge(target, change)
		}
	}
	return nil
}

// merge is a merge patch (RFC 7396), but for one thing: a limit whose algorithm
// changes is replaced as a whole, since the keys of the old one do not belong
// to the new.
func merge(target, patch map[string]any) {
	for k, v := range patch {
		sub, isMap := v.(map[string]any)
		old, wasMap := target[k].(map[string]any)
		switch {
		case !isMap || !wasMap, k == "limit" && sub["algorithm"] != nil && sub["algorithm"] != old["algorithm"]:
			target[k] = v
		default:
			merge(old, sub)
		}
	}
}
