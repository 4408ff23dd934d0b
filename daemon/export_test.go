package daemon

import (
	"context"
	"time"

	"github.com/admitd/admitd/askers"
	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/decide"
	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/ingress/httpgate"
	"github.com/admitd/admitd/ingress/mongogate"
	"github.com/admitd/admitd/ingress/postgresgate"
	"github.com/admitd/admitd/ingress/pulsargate"
	"github.com/admitd/admitd/lab/trace"
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
	running := map[string]*front{}
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
func (d *Daemon) Hello(name string) (labels.Hello, bool) { return d.face.hello(name) }

// Quota is what Envoys may share, for tests.
func (d *Daemon) Quota(ingress, partition string) (limiter.Rate, bool) {
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
	return d.fronts.apply(ctx, cfg, false)
}

// Recordings are the trace files that are being written, for tests.
type Recordings struct{ recordings }

// Use is use, for tests.
func (r *Recordings) Use(t *config.Trace) (*trace.Recorder, func() error, error) { return r.use(t) }

// NeedsRestart is needsRestart for what ships, for tests.
func NeedsRestart(old, next *config.Ingress) bool {
	for _, p := range protocols() {
		if p.Name == next.Protocol {
			return needsRestart(p, old, next)
		}
	}
	return true
}

// The rooms' fitting, for tests.
var (
	MongoCosts = mongoCosts
	Shortest   = shortest
)

// DefaultsOf returns what an ingress of the configuration that names nothing
// gives its gate, and what the gate takes for its zeros.
func DefaultsOf(in *config.Ingress) (given, own any, err error) {
	switch in.Protocol {
	case "http":
		p := protocolHTTP()
		k := &Kit{HTTPObserver: func(string) httpgate.Observer { return nil }, Askers: func(string) *askers.Board { return nil }, Own: func(string) func(time.Duration) { return nil }}
		o, _, err := p.httpOptions(k, in, nil)
		return o.WithDefaults(), httpgate.Options{}.WithDefaults(), err
	case "mongodb":
		o, err := mongoOptions(in)
		return o.WithDefaults(), mongogate.Options{}.WithDefaults(), err
	case "postgres":
		o, err := postgresOptions(in)
		return o.WithDefaults(), postgresgate.Options{}.WithDefaults(), err
	default:
		o, err := pulsarOptions(in)
		return o.WithDefaults(), pulsargate.Options{}.WithDefaults(), err
	}
}

// PorchOf is the same for what every ingress gives to its door.
func PorchOf(in *config.Ingress) (given, own any, err error) {
	o, _, err := protocolHTTP().porch(&Kit{}, in)
	return o.WithDefaults(), ingress.Options{}.WithDefaults(), err
}

// LogFormat is logFormat, for tests.
func LogFormat(configured string, terminal bool) string { return logFormat(configured, terminal) }
