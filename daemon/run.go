package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"reflect"
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/admitd/admitd/admin"
	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/observe"
)

// Options are what a daemon is told besides its configuration. The zero value
// runs on a built-in configuration and logs nowhere.
type Options struct {
	Path    string                    // of the configuration, watched and read again; "" = it is built in
	Loaded  config.Hash               // of the content that the configuration was read from
	Env     []string                  // overrides of the configuration, as os.Environ lists them
	Version string                    // of this program
	Log     io.Writer                 // where the log goes; nil = nowhere
	Fault   *clock.Fault              // bends the readings of the clock, to rehearse; nil = does not
	Sockets map[string][]net.Listener // by ingress: listeners that are open already
	// Protocols are further ones, beside those that ship; the configuration must
	// know them too.
	Protocols []*Protocol
	Kill      func() // ends the process at once, on a second signal; nil = does not
}

// New builds what all ingresses share. Nothing listens and nothing runs until
// [Daemon.Run].
func New(cfg *config.Config, o Options) (*Daemon, error) {
	out := o.Log
	if out == nil {
		out = io.Discard
	}
	log, level, err := observe.NewLogger(out, observe.LogOptions{Format: cfg.Log.Format, Level: cfg.Log.Level})
	if err != nil {
		return nil, err
	}
	mode, err := clock.ParseMode(cfg.Clock.Fallback)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		path: o.Path, loaded: o.Loaded, env: o.Env, version: o.Version, started: time.Now(), first: cfg, log: log, level: level,
		metrics: observe.New(observe.Options{Version: o.Version, Process: true}), failed: make(chan error, 1), up: make(chan struct{}),
		inherited: maps.Clone(o.Sockets), kill: o.Kill,
	}
	d.clock = clock.New(clock.Options{Mode: mode, Shortest: shortest(cfg), Fault: o.Fault, OnChange: d.clockChanged})
	d.zero = d.clock.Now() - int64(time.Since(d.started))
	if d.protocols, err = d.open(append(protocols(), o.Protocols...)); err != nil {
		return nil, err
	}
	d.metrics.WatchClock(d.clockState)
	d.steward = newSteward(d)
	if err := d.metrics.Register(newTunerCollector(d.steward)); err != nil {
		return nil, err
	}
	if o.Fault != nil {
		log.Warn("rehearsing a clock fault: readings of the clock are bent on purpose")
	}
	return d, nil
}

// Check builds everything that can be built without listening, and returns every
// problem that only a constructor finds or that lies in another file.
func Check(cfg *config.Config) error {
	d, err := New(cfg, Options{})
	_, noToken := readToken(cfg)
	_, noTuner := tunerOptions(&cfg.Tuner)
	problems := []error{err, noToken, noTuner}
	for i := 0; err == nil && i < len(cfg.Ingresses); i++ {
		_, problem := d.newFront(&cfg.Ingresses[i])
		problems = append(problems, problem)
	}
	return errors.Join(problems...)
}

// shortest returns the smallest latency that a limit is to tell from others; 0 =
// there is none.
func shortest(cfg *config.Config) time.Duration {
	var least time.Duration
	see := func(l *config.Limit) {
		if d := time.Duration(l.RequestTimeout); d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	for i := range cfg.Ingresses {
		p := &cfg.Ingresses[i].Partitions
		see(&p.Default.Limit)
		for j := range p.Named {
			see(&p.Named[j].Limit)
		}
	}
	return least
}

// clockChanged logs one line per change of the clock's state.
func (d *Daemon) clockChanged(s clock.Status) {
	attrs := []any{slog.String("state", s.State.String()), slog.String("reason", string(s.Reason)), slog.String("source", s.Source)}
	if s.Trusted {
		d.log.Info("clock state changed", attrs...)
		return
	}
	d.log.Warn("clock is not trusted: adaptive limits are fixed until it recovers", attrs...)
}

// clockState tells the metrics of the clock.
func (d *Daemon) clockState() observe.ClockState {
	s := d.clock.Status()
	events := map[clock.Reason]bool{clock.Paused: true, clock.Suspended: true, clock.WallStep: true}
	state := observe.ClockState{Trusted: s.Trusted, Faults: map[string]uint64{}}
	for _, r := range clock.Reasons() {
		state.Faults[string(r)] = s.Counts[r]
		if events[r] && r != clock.WallStep {
			state.Pauses += s.Counts[r]
		}
	}
	return state
}

// kept returns cfg with those settings that cannot change at run time as they
// are in force, and names each that differs. dropped says that the token's file
// was left out and the token is kept all the same.
func (d *Daemon) kept(running, cfg *config.Config, dropped bool) *config.Config {
	c := *cfg
	c.Admin.Listen, c.Admin.Insecure, c.Admin.Reads = running.Admin.Listen, running.Admin.Insecure, running.Admin.Reads
	if dropped {
		c.Admin.TokenFile = running.Admin.TokenFile
	}
	c.Log.Format, c.Tracing = running.Log.Format, running.Tracing
	for key, changed := range map[string]bool{
		"admin":      c.Admin != cfg.Admin,
		"log.format": c.Log.Format != cfg.Log.Format,
		"tracing":    !reflect.DeepEqual(c.Tracing, cfg.Tracing),
	} {
		if changed {
			d.log.Warn("this setting takes effect after a restart only", slog.String("key", key))
		}
	}
	return &c
}

// retune takes over what all ingresses share and can change at run time.
func (d *Daemon) retune(cfg *config.Config) {
	if err := d.level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		d.log.Error("log level stays", slog.Any("error", err))
	}
	if mode, err := clock.ParseMode(cfg.Clock.Fallback); err == nil {
		d.clock.SetMode(mode)
	}
	d.clock.SetShortest(shortest(cfg))
}

// Run serves until ctx is done, the process is told to stop or something fails,
// and drains. It may be called once. An error says that work was cut off or what
// failed.
func (d *Daemon) Run(ctx context.Context) error {
	cfg := d.first
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := catchSignals() // before anybody is told that the daemon runs
	var err error
	if d.tracer, err = newTracer(ctx, &cfg.Tracing, d.version, d.log); err != nil {
		return err
	}
	defer d.closeTracer(ctx)
	adminServer, adminListener, err := d.newAdmin(ctx, cfg)
	if err != nil {
		return err
	}
	d.admin, d.adminAddr = adminServer, adminListener.Addr()
	if d.path != "" {
		d.watcher = config.NewWatcher(d.path, d.loaded, func(b []byte) error { return d.load(ctx, b) }, config.WatchOptions{})
	}
	if _, err = tunerOptions(&cfg.Tuner); err != nil {
		_ = adminListener.Close()
		return err
	}
	d.change.Lock()
	err = d.apply(ctx, cfg)
	d.applied = time.Now() // nobody reads it yet
	d.change.Unlock()
	if err != nil {
		_ = adminListener.Close()
		return err
	}
	d.metrics.Reloaded(true, time.Now())
	d.log.Info("admitd serves", slog.String("version", d.version), slog.String("admin", adminListener.Addr().String()),
		slog.Int("ingresses", len(cfg.Ingresses)))
	_, _ = sd.SdNotify(false, sd.SdNotifyReady)
	close(d.up)

	summary := &observe.Summary{Log: d.log, Gates: d.gates}
	actors := []actor{
		{"signals", func(ctx context.Context) error { return d.signals(ctx, got) }},
		{"tuner", d.steward.run},
		{"ingresses", d.runFronts},
		{"admin", func(ctx context.Context) error { return adminServer.Serve(ctx, adminListener) }},
		{"clock", d.clock.Run},
		{"summary", func(ctx context.Context) error { summary.Run(ctx); return nil }},
	}
	if d.watcher != nil {
		actors = append(actors, actor{"watcher", d.watcher.Run})
	}
	err = runActors(ctx, actors)
	adminServer.Close()
	return err
}

// newAdmin builds the admin server and opens its address.
func (d *Daemon) newAdmin(ctx context.Context, cfg *config.Config) (*admin.Server, net.Listener, error) {
	token, err := readToken(cfg)
	if err != nil {
		return nil, nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Admin.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("admin.listen: %w", err)
	}
	hostname, _ := os.Hostname() // without one the machine is known by its addresses
	s := admin.New(admin.Options{
		Address: ln.Addr(),
		State:   d, Settings: d, Admitter: d, Tuner: d, Metrics: d.metrics.Handler(), Token: token, Insecure: cfg.Admin.Insecure, Log: d.log,
		ReadsNeedToken: cfg.Admin.Reads == "token", Hostname: hostname,
		Hello: func() (labels.Hello, bool) { return d.hello("") },
	})
	return s, ln, nil
}

// readToken returns the bearer token of the admin port; "" = none is asked for.
func readToken(cfg *config.Config) (string, error) {
	if cfg.Admin.TokenFile == "" {
		return "", nil
	}
	b, err := os.ReadFile(cfg.Admin.TokenFile)
	if err != nil {
		return "", fmt.Errorf("admin.tokenFile: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", errors.New("admin.tokenFile: holds no token (" + cfg.Admin.TokenFile + ")")
	}
	return token, nil
}
