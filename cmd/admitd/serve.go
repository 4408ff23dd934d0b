package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/admitd/admitd/admin"
	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/observe"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	config     string
	clockFault string
}

// newServe returns the command that runs the daemon.
func newServe(s streams) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run the daemon",
		Long: `Runs the gates that the configuration names, until SIGTERM or SIGINT. Then it
drains: no new connections, new requests are refused with reason "draining",
what is in progress finishes within each ingress's drainTimeout. A second
signal stops at once. Exit status: 0 after a clean drain, 1 when work had to be
cut off or the daemon failed.

SIGHUP, POST /v1/reload on the admin port and a change of the file itself put a
new configuration in force. One that does not hold is refused and the running
one stays; /readyz, the metric admitd_config_last_reload_successful and the log
say so. Every key can be set from the environment: ADMITD_ADMIN__LISTEN=….`,
		Example: "  admitd serve --config admitd.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), s, o) },
	}
	cmd.Flags().StringVarP(&o.config, "config", "c", "", "configuration file (required)")
	cmd.Flags().StringVar(&o.clockFault, "clock-fault", "", "rehearse a clock fault, such as frozen@10s+20s or jump=1h@10s")
	_ = cmd.Flags().MarkHidden("clock-fault")
	_ = cmd.MarkFlagRequired("config")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// serve runs the daemon to its end.
func serve(ctx context.Context, s streams, o serveOptions) error {
	fault, err := clock.ParseFault(o.clockFault)
	if err != nil {
		return err
	}
	content, err := config.Read(o.config)
	if err != nil {
		return err
	}
	cfg, err := config.Parse(o.config, content, os.Environ())
	if err != nil {
		return err
	}
	d, err := newDaemon(s, o.config, cfg, fault)
	if err != nil {
		return err
	}
	if d.inherited, err = activation.ListenersWithNames(); err != nil {
		return fmt.Errorf("sockets from systemd: %w", err)
	}
	return d.run(ctx, cfg, config.HashOf(content))
}

// newDaemon builds what all ingresses share.
func newDaemon(s streams, path string, cfg *config.Config, fault *clock.Fault) (*daemon, error) {
	log, level, err := observe.NewLogger(s.err, observe.LogOptions{Format: cfg.Log.Format, Level: cfg.Log.Level})
	if err != nil {
		return nil, err
	}
	mode, err := clock.ParseMode(cfg.Clock.Fallback)
	if err != nil {
		return nil, err
	}
	v, _ := buildVersion()
	d := &daemon{
		path: path, env: os.Environ(), version: v, started: time.Now(), log: log, level: level,
		metrics: observe.New(observe.Options{Version: v, Process: true}), failed: make(chan error, 1), up: make(chan struct{}),
	}
	if d.protocols, err = newProtocolMetrics(d.metrics); err != nil {
		return nil, err
	}
	d.clock = clock.New(clock.Options{Mode: mode, Shortest: shortest(cfg), Fault: fault, OnChange: d.clockChanged})
	d.metrics.WatchClock(d.clockState)
	if fault != nil {
		log.Warn("rehearsing a clock fault: readings of the clock are bent on purpose")
	}
	return d, nil
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
func (d *daemon) clockChanged(s clock.Status) {
	attrs := []any{slog.String("state", s.State.String()), slog.String("reason", string(s.Reason)), slog.String("source", s.Source)}
	if s.Trusted {
		d.log.Info("clock state changed", attrs...)
		return
	}
	d.log.Warn("clock is not trusted: adaptive limits are fixed until it recovers", attrs...)
}

// clockState tells the metrics of the clock.
func (d *daemon) clockState() observe.ClockState {
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

// retune takes over what all ingresses share and can change at run time, and
// names what cannot.
func (d *daemon) retune(old, cfg *config.Config) {
	for key, changed := range map[string]bool{
		"admin":      old.Admin != cfg.Admin,
		"log.format": old.Log.Format != cfg.Log.Format,
		"tracing":    !reflect.DeepEqual(old.Tracing, cfg.Tracing),
	} {
		if changed {
			d.log.Warn("this setting takes effect after a restart only", slog.String("key", key))
		}
	}
	if err := d.level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		d.log.Error("log level stays", slog.Any("error", err))
	}
	if mode, err := clock.ParseMode(cfg.Clock.Fallback); err == nil {
		d.clock.SetMode(mode)
	}
}

// run starts everything and waits for the end.
func (d *daemon) run(ctx context.Context, cfg *config.Config, loaded config.Hash) error {
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
	d.admin = adminServer
	if d.path != "" {
		d.watcher = config.NewWatcher(d.path, loaded, func(b []byte) error { return d.load(ctx, b) }, config.WatchOptions{})
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

// caught are the signals that arrived.
type caught struct{ hup, term chan os.Signal }

// catchSignals takes the signals that the daemon answers. It takes SIGHUP for
// good: while the daemon drains it must not end the process.
func catchSignals() caught {
	c := caught{hup: make(chan os.Signal, 1), term: make(chan os.Signal, 2)}
	signal.Notify(c.hup, syscall.SIGHUP)
	signal.Notify(c.term, syscall.SIGTERM, syscall.SIGINT)
	return c
}

// signals reloads on SIGHUP and returns on SIGTERM or SIGINT; the next of these
// then ends the process at once.
func (d *daemon) signals(ctx context.Context, got caught) error {
	for {
		select {
		case <-ctx.Done():
			signal.Stop(got.term)
			return nil
		case <-got.hup:
			_, _ = sd.SdNotify(false, sd.SdNotifyReloading)
			_ = d.Reload(ctx) // logged and counted where it happens
			_, _ = sd.SdNotify(false, sd.SdNotifyReady)
		case sig := <-got.term:
			d.log.Info("signal received, stopping", slog.String("signal", sig.String()))
			_, _ = sd.SdNotify(false, sd.SdNotifyStopping)
			go stopAtOnce(got.term, d.log)
			return nil
		}
	}
}

// stopAtOnce ends the process on a further signal.
func stopAtOnce(term <-chan os.Signal, log *slog.Logger) {
	<-term
	log.Warn("second signal, stopping at once")
	os.Exit(130)
}

// newAdmin builds the admin server and opens its address.
func (d *daemon) newAdmin(ctx context.Context, cfg *config.Config) (*admin.Server, net.Listener, error) {
	token, err := readToken(cfg)
	if err != nil {
		return nil, nil, err
	}
	s := admin.New(admin.Options{
		State: d, Settings: d, Admitter: d, Metrics: d.metrics.Handler(), Token: token, Insecure: cfg.Admin.Insecure, Log: d.log,
		Hello: func() (labels.Hello, bool) { return d.hello("") },
	})
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Admin.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("admin.listen: %w", err)
	}
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
