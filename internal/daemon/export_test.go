package daemon

import (
	"context"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/internal/decide/envoy"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Standing returns a daemon whose gates are built and of which nothing runs, for
// tests.
func Standing(cfg *config.Config) (*Daemon, error) {
	d, err := New(cfg, Options{})
	if err != nil {
		return nil, err
	}
	running := map[string]*runningIngress{}
	for i := range cfg.Ingresses {
		f, err := d.fronts.newFront(&cfg.Ingresses[i])
		if err != nil {
			return nil, err
		}
		running[f.name] = f
	}
	d.fronts.cfg, d.fronts.running = cfg, running
	return d, nil
}

// Build builds one ingress; prepare builds what a reload would change.
func Build(cfg *config.Config, in *config.Ingress) (server bool, prepare func() error, err error) {
	d, err := New(cfg, Options{})
	if err != nil {
		return false, nil, err
	}
	f, err := d.fronts.newFront(in)
	if err != nil || f.server == nil {
		return false, nil, err
	}
	return true, func() error { _, err := f.server.Prepare(in); return err }, nil
}

// Hello is hello, for tests.
func (d *Daemon) Hello(name string) (labels.Hello, bool) { return d.view.hello(name) }

// Quota is what Envoys may share, for tests.
func (d *Daemon) Quota(ingress, partition string) (envoy.Quota, bool) {
	return d.counter.Quota(ingress, partition)
}

// Admit decides for who asks, for tests.
func (d *Daemon) Admit(ctx context.Context, a *decide.Ask) (limiter.Permit, error) {
	return d.counter.Admit(ctx, a)
}

// Apply puts a configuration in force, for tests.
func (d *Daemon) Apply(ctx context.Context, cfg *config.Config) error {
	d.fronts.change.Lock()
	defer d.fronts.change.Unlock()
	return d.fronts.apply(ctx, cfg, true)
}

// PromisedDescriptors returns how many descriptors are promised, for tests.
func (d *Daemon) PromisedDescriptors() int64 { return d.files.Promised() }

// Overrides are the overrides of keys, for tests.
func (d *Daemon) Overrides() admin.Overrides { return d.fronts.overrides }

// Shortest is shortest, for tests.
var Shortest = shortest

// LogFormat is logFormat, for tests.
func LogFormat(configured string, terminal bool) string { return logFormat(configured, terminal) }

// FollowTokens follows the files of tokens until ctx is done, for tests.
func (d *Daemon) FollowTokens(ctx context.Context, taken func(token string)) {
	d.settings.setToken = func(token string) error { taken(token); return nil }
	d.settings.setDecisionsToken = d.settings.setToken
	_ = d.settings.followTokens(ctx)
}
