// Package daemon is what runs: it turns a configuration into gates and the
// servers before them, puts changes in force while they serve, and drains them at
// the end. [New] builds a [Daemon], [Daemon.Run] runs it. It introduces the rooms
// to each other and holds no policy of its own: what is admitted is decided in
// limiter, what a message means in the protocols' rooms.
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

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/config/watch"
	"github.com/admitd/admitd/internal/daemon/keys"
	"github.com/admitd/admitd/internal/daemon/memrelease"
	"github.com/admitd/admitd/internal/daemon/protocol"
	"github.com/admitd/admitd/internal/daemon/tunersetup"
	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/observe"
)

// Options are what a daemon is told besides its configuration. The zero value
// runs on a built-in configuration and logs nowhere.
type Options struct {
	Path    string     // of the configuration, watched and read again; "" = it is built in
	Loaded  watch.Hash // of the content that the configuration was read from
	Env     []string   // overrides of the configuration, as os.Environ lists them
	Version string     // of this program
	Log     io.Writer  // where the log goes; nil = nowhere
	// Terminal says that a person reads Log: text, unless the configuration says
	// otherwise.
	Terminal bool
	Fault    *clock.Fault              // bends the readings of the clock, to rehearse; nil = does not
	Sockets  map[string][]net.Listener // by ingress: listeners that are open already
	// Protocols are further ones, beside those that ship; the configuration must
	// know them too.
	Protocols []*protocol.Protocol
	Kill      func() // ends the process at once, on a second signal; nil = does not
	// MemoryLimit is what the program has set as the limit of the Go runtime, in bytes,
	// for the log; 0 = nothing.
	MemoryLimit int64
}

// Daemon is everything that runs: what all ingresses share, the ingresses, and
// who looks at them and changes them. [Daemon.Run] is called once; the other
// methods are for any goroutine once [Daemon.Up] is closed.
type Daemon struct {
	*shared

	fronts      *runningIngresses
	settings    *settings
	view        *adminView
	tunerRunner *tunersetup.Runner
	counter     *counter
	decider     *decide.Decider

	first     *config.Config // in force when Run begins
	loaded    watch.Hash
	kill      func()        // ends the process at once; nil = nothing does
	adminAddr net.Addr      // set before up is closed
	up        chan struct{} // closed when everything listens
}

// New builds what all ingresses share. Nothing listens and nothing runs until
// [Daemon.Run].
func New(cfg *config.Config, o Options) (*Daemon, error) {
	sh, err := newShared(cfg, &o)
	if err != nil {
		return nil, err
	}
	if o.MemoryLimit > 0 {
		sh.log.Info("the heap is kept within the memory limit of the control group", slog.Int64("bytes", o.MemoryLimit))
	}
	d := &Daemon{shared: sh, first: cfg, loaded: o.Loaded, kill: o.Kill, up: make(chan struct{})}
	d.fronts = &runningIngresses{shared: sh, inherited: maps.Clone(o.Sockets), failed: make(chan error, 1), stages: newStages()}
	d.fronts.fleet = newFleetMember(sh, d.fronts)
	d.settings = &settings{shared: sh, fronts: d.fronts, path: o.Path, env: o.Env}
	d.fronts.overrides = &overrides{settings: d.settings}
	d.fronts.memory = &stateFile{shared: sh, running: d.settings.running, soon: make(chan struct{}, 1)}
	d.view = &adminView{shared: sh, fronts: d.fronts, settings: d.settings}
	kit := sh.kit(d.view.hello)
	d.counter = &counter{fronts: d.fronts, kit: kit}
	d.decider = decide.NewDecider(d.counter, 0)
	d.tunerRunner = tunersetup.New(sh.log, &tunerGate{settings: d.settings}, d.settings.running, d.fronts.memory.changed)
	d.fronts.memory.kept, d.fronts.memory.restore = d.tunerRunner.Kept, d.tunerRunner.Restore
	d.view.tunerRunner = d.tunerRunner
	d.settings.reloaded = d.tunerRunner.Reloaded
	if d.fronts.protocols, err = protocol.OpenAll(kit, append(protocol.All(), o.Protocols...)); err != nil {
		return nil, err
	}
	return d, errors.Join(sh.metrics.Register(tunersetup.NewCollector(d.tunerRunner)), sh.metrics.Register(d.fronts.overrides),
		sh.metrics.Register(newShadowCollector(d.fronts.stages)), sh.metrics.Register(newFleetCollector(d.fronts.fleet)), sh.metrics.Register(askedCollector{d.decider}))
}

// Check builds everything that can be built without listening, and returns every
// problem that only a constructor finds or that lies in another file.
func Check(cfg *config.Config) error {
	d, err := New(cfg, Options{})
	_, _, noToken := readTokens(cfg)
	_, noTuner := tunersetup.Options(&cfg.Tuner)
	_, noKeys := keys.NewRing(cfg.Decisions.TLS, nil, nil)
	problems := []error{err, noToken, noTuner, noKeys}
	if err == nil {
		_, noCast := d.fronts.cast(cfg)
		_, noClub := d.fronts.fleet.prepare(cfg, true)
		problems = append(problems, noCast, noClub)
	}
	for i := 0; err == nil && i < len(cfg.Ingresses); i++ {
		_, problem := d.fronts.newFront(&cfg.Ingresses[i])
		problems = append(problems, problem)
	}
	return errors.Join(problems...)
}

// Up is closed when everything listens.
func (d *Daemon) Up() <-chan struct{} { return d.up }

// Address returns where an ingress listens, nil when it does not run.
func (d *Daemon) Address(ingress string) net.Addr { return d.fronts.address(ingress) }

// AdminAddress returns where the admin port listens; it is known when [Daemon.Up]
// is closed.
func (d *Daemon) AdminAddress() net.Addr { return d.adminAddr }

// Gate returns the gate of an ingress, nil when it does not run.
func (d *Daemon) Gate(ingress string) *limiter.Gate {
	if f := d.fronts.front(ingress); f != nil {
		return f.gate
	}
	return nil
}

// Reload reads the configuration again and puts it in force. The error is an
// [*admin.Invalid] when it does not hold; the running one then stays.
func (d *Daemon) Reload(ctx context.Context) error {
	_, err := d.settings.Reload(ctx, "the program")
	return err
}

// Patch changes one ingress until the next reload, as [admin.Settings] has it.
func (d *Daemon) Patch(ctx context.Context, ingress string, p admin.Patch) (before, after any, err error) {
	return d.settings.Patch(ctx, ingress, p)
}

// Run serves until ctx is done, the process is told to stop or something fails,
// and drains. It may be called once. An error says that work was cut off or what
// failed.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.spool.Flush()
	life, end := context.WithCancel(ctx)
	defer end()
	ctx, stop := context.WithCancel(life)
	defer stop()
	got := catchSignals() // before anybody is told that the daemon runs
	go d.heed(life, got.term, stop)
	if err := d.run(ctx, got.hup); !errors.Is(err, context.Canceled) { // else it was stopped before it served
		return err
	}
	return nil
}

// run is [Daemon.Run] until ctx is done.
func (d *Daemon) run(ctx context.Context, hup <-chan os.Signal) (err error) {
	cfg := d.first
	if d.tracer, err = newTracer(ctx, &cfg.Tracing, d.version, d.log); err != nil {
		return err
	}
	defer d.closeTracer(ctx)
	d.settings.readSources(d.loaded)
	open, err := d.openPorts(ctx, cfg)
	if err != nil {
		return err
	}
	if err = d.open(ctx, cfg, open); err != nil {
		open.close()
		return err
	}
	d.log.Info("admitd serves", slog.String("version", d.version), slog.String("admin", open.ln.Addr().String()), slog.String("decisions", open.hatch.address()),
		slog.Int("ingresses", len(cfg.Ingresses)))
	_, _ = sd.SdNotify(false, sd.SdNotifyReady)
	close(d.up)

	err = runActors(ctx, d.actors(open, hup))
	open.admin.Close()
	d.decider.Close()
	return err
}

// open puts the first configuration in force: when it returns nil, every ingress
// serves.
func (d *Daemon) open(ctx context.Context, cfg *config.Config, open ports) error {
	if path := d.settings.path; path != "" {
		d.settings.watcher = watch.New(path, d.loaded, func(b []byte) error { _, err := d.settings.load(ctx, b, "the file"); return err }, watch.Options{Lost: d.settings.lost})
	}
	if _, err := tunersetup.Options(&cfg.Tuner); err != nil {
		return err
	}
	d.fronts.memory.learned = open.admin.Baselines
	d.fronts.memory.read(cfg.StateFile)
	d.fronts.change.Lock()
	err := d.fronts.apply(ctx, cfg, false)
	d.fronts.change.Unlock()
	if err == nil {
		d.settings.took()
	}
	return err
}

// actors lists what runs, in the order in which it is stopped.
func (d *Daemon) actors(open ports, hup <-chan os.Signal) []actor {
	summary := &observe.Summary{Log: d.log, Gates: d.fronts.gates, Doors: d.metrics.Doors, Most: open.admin.MostRefused}
	list := []actor{
		{"reloads", func(ctx context.Context) error { return d.reloads(ctx, hup) }},
		{"tokens", d.settings.followTokens},
		{"lame duck", d.lameDuck},
		{"tuner", d.tunerRunner.Run},
		{"decisions", open.hatch.run}, // before gates drain: who asks finds nobody, and goes on without, instead of being refused
		{"ingresses", d.runFronts},
		{"fleet", d.fronts.fleet.run},
		{"admin", func(ctx context.Context) error { return open.admin.Serve(ctx, open.ln) }},
		{"memory", d.fronts.memory.run},
		{"shadow", d.fronts.stages.run},
		{"clock", d.clock.Run},
		{"ebb", memrelease.Run},
		{"summary", func(ctx context.Context) error { summary.Run(ctx); return nil }},
		{"watchdog", d.watchdog},
		{"delay", d.metrics.WatchDelay},
	}
	if d.settings.watcher != nil {
		list = append(list, actor{"watcher", d.settings.watcher.Run})
	}
	return list
}

// ports are what the daemon listens on besides its ingresses.
type ports struct {
	admin *admin.Server
	ln    net.Listener // of the admin port
	hatch decisions
}

// openPorts builds the servers of the ports and opens their addresses.
func (d *Daemon) openPorts(ctx context.Context, cfg *config.Config) (p ports, err error) {
	if p.admin, p.ln, err = d.newAdmin(ctx, cfg); err != nil {
		return p, err
	}
	if p.hatch, err = d.newDecisions(ctx, cfg); err != nil {
		_ = p.ln.Close()
		return p, err
	}
	d.adminAddr = p.ln.Addr()
	d.settings.setToken, d.settings.setDecisionsToken = p.admin.SetToken, p.hatch.setToken
	return p, nil
}

// close gives up listeners that nobody serves.
func (p ports) close() {
	_ = p.ln.Close()
	p.hatch.close()
}

// newAdmin builds the admin server and opens its address.
func (d *Daemon) newAdmin(ctx context.Context, cfg *config.Config) (*admin.Server, net.Listener, error) {
	token, err := readToken("admin", cfg.Admin.TokenFile)
	if err != nil {
		return nil, nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Admin.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("admin.listen: %w", err)
	}
	var s *admin.Server
	ln = d.bounded(ln, "admin", 4, true, func() bool { return s.CloseIdle() }) // somebody has to look when nothing goes on
	hostname, _ := os.Hostname()                                               // without one the machine is known by its addresses
	s = admin.New(admin.Options{
		Address: ln.Addr(),
		State:   d.view, Settings: d.settings, Overrides: d.fronts.overrides, Tuner: d.tunerRunner, Shadow: &promotions{settings: d.settings}, Fleet: d.fronts.fleet.status, Pending: d.fronts.fleet.pending, Metrics: d.metrics.Handler(), Lines: d.tail.Lines, Token: token, Insecure: cfg.Admin.Insecure, Log: d.log,
		ReadsNeedToken: cfg.Admin.Reads == "token", Hostname: hostname,
		Hello: func() (labels.Hello, bool) { return d.view.hello("") },
	})
	d.metrics.WatchLimits(func() (out []observe.LimitChanges) {
		for _, c := range s.LimitChanges() {
			out = append(out, observe.LimitChanges(c))
		}
		return out
	})
	return s, ln, nil
}

// errCut is the end of a daemon that did not finish everything in time.
var errCut = errors.New("drain was cut short: work was still in progress when its time was over")

// errIngressFailed is wrapped by the failure of an ingress.
var errIngressFailed = errors.New("an ingress failed")

// runFronts waits for the end, and drains. It is the actor that stands for all
// ingresses.
func (d *Daemon) runFronts(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
	case failure := <-d.fronts.failed:
		err = fmt.Errorf("%w: %w", errIngressFailed, failure)
	}
	clean := d.fronts.drain(context.WithoutCancel(ctx))
	d.log.Info("drained")
	if err == nil && !clean {
		return errCut
	}
	return err
}
