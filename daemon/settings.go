package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/admitd/admitd/admin"
	"github.com/admitd/admitd/config"
)

// Config implements [admin.Settings].
func (d *Daemon) Config() any {
	b, err := d.running().Effective()
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return json.RawMessage(b)
}

// running returns the configuration in force.
func (d *Daemon) running() *config.Config {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.cfg
}

// Reload implements [admin.Settings]: it reads the file and puts it in force.
func (d *Daemon) Reload(ctx context.Context) error {
	if d.path == "" {
		return &admin.Invalid{Problems: []string{"this daemon runs on a built-in configuration"}}
	}
	content, err := config.Read(d.path)
	if d.watcher != nil { // it must offer what comes next, even if it is what ran before
		seen := config.Hash{}
		if err == nil {
			seen = config.HashOf(content)
		}
		d.watcher.Saw(seen)
	}
	if err != nil {
		d.refuse([]string{err.Error()})
		return &admin.Invalid{Problems: []string{err.Error()}}
	}
	return d.load(ctx, content)
}

// load parses content and puts it in force, or keeps what runs.
func (d *Daemon) load(ctx context.Context, content []byte) error {
	d.change.Lock()
	defer d.change.Unlock()
	cfg, err := config.Parse(d.path, content, d.env)
	before, token := d.running(), ""
	if err == nil {
		token, err = readToken(cfg)
	}
	if err == nil {
		_, err = tunerOptions(&cfg.Tuner)
	}
	if err == nil {
		d.reading = true
		err = d.apply(ctx, cfg)
		d.reading = false
	}
	if errors.Is(err, admin.ErrDraining) {
		return err
	}
	if err != nil {
		invalid := &admin.Invalid{Problems: problemsOf(err)}
		d.refuse(invalid.Problems)
		return invalid
	}
	d.mu.Lock()
	d.applied, d.problems = time.Now(), nil
	d.mu.Unlock()
	dropped := d.admin.SetToken(token) != nil
	if dropped {
		d.log.Warn("the admin port keeps its token, for others than this machine can reach it; restart to serve without one")
	}
	inForce := d.kept(before, cfg, dropped)
	d.mu.Lock()
	d.cfg = inForce
	d.mu.Unlock()
	d.retune(inForce)
	d.steward.reloaded()
	d.metrics.Reloaded(true, time.Now())
	d.log.Info("configuration is in force", slog.String("path", d.path), slog.Int("ingresses", len(cfg.Ingresses)))
	return nil
}

// refuse notes that a configuration was refused; the running one stays.
func (d *Daemon) refuse(problems []string) {
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
func (d *Daemon) Patch(ctx context.Context, name string, p admin.Patch) (before, after any, err error) {
	d.change.Lock()
	defer d.change.Unlock()
	return d.patch(ctx, name, p)
}

// patch is [Daemon.Patch]. d.change is held.
func (d *Daemon) patch(ctx context.Context, name string, p admin.Patch) (before, after any, err error) {
	old := d.ingress(name)
	if old == nil {
		return nil, nil, admin.ErrUnknownIngress
	}
	document, err := patchDocument(p)
	if err != nil {
		return nil, nil, &admin.Invalid{Problems: []string{err.Error()}}
	}
	next, err := d.running().Patch(name, document)
	if err == nil {
		err = d.apply(ctx, next)
	}
	if errors.Is(err, admin.ErrDraining) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, &admin.Invalid{Problems: problemsOf(err)}
	}
	d.log.Info("runtime settings changed", slog.String("ingress", name), slog.String("patch", string(document)))
	return settingsOf(old), settingsOf(d.ingress(name)), nil
}

// patchDocument spells a patch as the configuration does, in which named
// partitions are a list.
func patchDocument(p admin.Patch) ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	if parts, ok := doc["partitions"].(map[string]any); ok {
		if named, ok := parts["named"].(map[string]any); ok {
			list := make([]any, 0, len(named))
			for name, change := range named {
				entry, ok := change.(map[string]any)
				if !ok {
					return nil, fmt.Errorf("patch: partitions.named.%s is not a mapping", name)
				}
				entry["name"] = name
				list = append(list, entry)
			}
			parts["named"] = list
		}
	}
	if b, err = json.Marshal(doc); err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	return b, nil
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
