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
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/admin"
	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/observe"
	"github.com/admitd/admitd/tracing"
)

// probeTimeout bounds how long a backend may take to say what it is.
const probeTimeout = 3 * time.Second

// Daemon is everything that runs: the parts that all ingresses share, and the
// ingresses.
type Daemon struct {
	path      string // of the configuration; "" = built in
	loaded    config.Hash
	first     *config.Config // in force when Run begins
	env       []string
	version   string
	started   time.Time
	log       *slog.Logger
	level     *slog.LevelVar
	clock     *clock.Guard
	zero      int64 // of the clock, at started
	metrics   *observe.Metrics
	protocols map[string]opened
	tracer    *tracing.Tracer // nil = nothing is traced
	watcher   *config.Watcher // nil without a file
	admin     *admin.Server
	adminAddr net.Addr // set before up is closed
	failed    chan error
	up        chan struct{} // closed when everything listens
	kill      func()        // ends the process at once; nil = nothing does

	inherited map[string][]net.Listener // by ingress; opened by systemd

	recordings recordings
	loads      loads

	change  sync.Mutex     // held while a configuration is applied, never by readers
	leaving sync.WaitGroup // fronts that drain; joined while change is held
	reading bool           // what is applied was read anew; guarded by change
	steward *steward

	mu       sync.RWMutex // guards the fields below; never held across a wait
	cfg      *config.Config
	readings uint64 // how often cfg was read anew
	fronts   map[string]*front
	draining bool
	applied  time.Time
	problems []string // of the last configuration that was refused
}

// front returns a running ingress, nil when there is none of that name.
func (d *Daemon) front(name string) *front {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.fronts[name]
}

// Up is closed when everything listens.
func (d *Daemon) Up() <-chan struct{} { return d.up }

// Address returns where an ingress listens, nil when it does not run.
func (d *Daemon) Address(ingress string) net.Addr {
	if f := d.front(ingress); f != nil && f.ln != nil {
		return f.ln.Addr()
	}
	return nil
}

// AdminAddress returns where the admin port listens; it is known when [Daemon.Up]
// is closed.
func (d *Daemon) AdminAddress() net.Addr { return d.adminAddr }

// Gate returns the gate of an ingress, nil when it does not run.
func (d *Daemon) Gate(ingress string) *limiter.Gate {
	if f := d.front(ingress); f != nil {
		return f.gate
	}
	return nil
}

// fail ends the daemon with err.
func (d *Daemon) fail(err error) {
	select {
	case d.failed <- err:
	default: // it is ending already
	}
}

// apply puts a configuration in force: builds everything that is new, and only
// then changes anything. d.change is held.
func (d *Daemon) apply(ctx context.Context, cfg *config.Config) error {
	if d.isDraining() {
		return admin.ErrDraining
	}
	plan, err := d.plan(ctx, cfg)
	if err != nil {
		return err
	}
	next := make(map[string]*front, len(plan))
	for _, p := range plan {
		next[p.in.Name] = p.front
		p.front.gate.Apply(p.policy)
		if p.isNew {
			d.start(ctx, p.front, p.ln)
			continue
		}
		if p.apply != nil {
			p.apply()
		}
	}
	d.mu.Lock()
	old := d.fronts
	d.fronts, d.cfg = next, cfg
	if d.reading {
		d.readings++
	}
	d.mu.Unlock()
	for name, f := range old {
		if next[name] != f {
			d.leaving.Go(func() { _ = d.drainFront(context.WithoutCancel(ctx), f) }) // logged there
		}
	}
	return nil
}

// planned is one ingress of a configuration that is about to be applied.
type planned struct {
	in     *config.Ingress
	policy *limiter.Policy
	front  *front
	apply  func() // puts the rest in force in a front that stays; nil = there is none
	ln     net.Listener
	isNew  bool
}

// plan builds what cfg needs and opens its listeners. When anything fails
// nothing has changed.
func (d *Daemon) plan(ctx context.Context, cfg *config.Config) ([]planned, error) {
	plan := make([]planned, 0, len(cfg.Ingresses))
	for i := range cfg.Ingresses {
		p, err := d.planOne(ctx, &cfg.Ingresses[i])
		if err != nil {
			for _, opened := range plan {
				if opened.ln != nil {
					_ = opened.ln.Close()
				}
			}
			return nil, err
		}
		plan = append(plan, p)
	}
	return plan, nil
}

// planOne keeps the front that runs when it can take the change over, and else
// builds a new one on the same socket where the address stays.
func (d *Daemon) planOne(ctx context.Context, in *config.Ingress) (p planned, err error) {
	old := d.ingress(in.Name)
	p = planned{in: in, front: d.front(in.Name)}
	if p.policy, err = Policy(in, d.meet); err != nil {
		return p, fmt.Errorf("ingress %s: %w", in.Name, err)
	}
	if old != nil && p.front != nil && !needsRestart(d.protocols[in.Protocol].Protocol, old, in) {
		if p.front.server != nil {
			if p.apply, err = p.front.server.Prepare(in); err != nil {
				err = fmt.Errorf("ingress %s: %w", in.Name, err)
			}
		}
		return p, err
	}
	if p.front, err = d.newFront(in); err != nil {
		return p, err
	}
	p.isNew = true
	if p.front.server != nil {
		if err = d.probe(ctx, p.front, in.Protocol); err == nil {
			p.ln, err = d.listen(ctx, in)
		}
	}
	return p, err
}

// probe asks the backend of a new front whether its clients could walk around
// the gate. A backend that does not answer is no reason not to start: the gate
// checks again when it does.
func (d *Daemon) probe(ctx context.Context, f *front, protocol string) error {
	if f.server.Probe == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := f.server.Probe(ctx)
	if bypass := d.protocols[protocol].Bypass; bypass != nil && errors.Is(err, bypass) {
		return fmt.Errorf("ingress %s: %w", f.name, err)
	}
	if err != nil {
		d.log.Warn("backend does not answer yet", slog.String("ingress", f.name), slog.Any("error", err))
	}
	return nil
}

// ingress returns the settings of an ingress that runs, nil when it does not.
func (d *Daemon) ingress(name string) *config.Ingress {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.cfg == nil {
		return nil
	}
	for i := range d.cfg.Ingresses {
		if d.cfg.Ingresses[i].Name == name {
			return &d.cfg.Ingresses[i]
		}
	}
	return nil
}

// drain stops every ingress and waits for all, those that a reload replaced
// included.
func (d *Daemon) drain(ctx context.Context) (clean bool) {
	d.change.Lock() // a configuration that is being applied comes first
	d.mu.Lock()
	fronts := d.fronts
	for _, f := range fronts {
		f.gate.Drain() // before anybody is told that the daemon drains
	}
	d.draining = true
	d.mu.Unlock()
	d.log.Info("draining") // not before it is true
	var cut atomic.Bool
	for _, f := range fronts {
		d.leaving.Go(func() {
			if d.drainFront(ctx, f) != nil {
				cut.Store(true)
			}
		})
	}
	d.change.Unlock()
	d.leaving.Wait()
	return !cut.Load()
}

// isDraining reports whether the end has begun.
func (d *Daemon) isDraining() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.draining
}

// gates lists the gates for the summary of refusals.
func (d *Daemon) gates() []observe.StatusReader {
	d.mu.RLock()
	defer d.mu.RUnlock()
	list := make([]observe.StatusReader, 0, len(d.fronts))
	for _, f := range d.fronts {
		list = append(list, f.gate)
	}
	return list
}

// errCut is the end of a daemon that did not finish everything in time.
var errCut = errors.New("drain was cut short: work was still in progress when its time was over")

// errIngressFailed is wrapped by the failure of an ingress.
var errIngressFailed = errors.New("an ingress failed")

// awaitPermits waits for the permits that callers of the decision API hold, as
// long as the most patient ingress does.
func (d *Daemon) awaitPermits(start time.Time) (clean bool) {
	var patience time.Duration
	cfg := d.running()
	for i := range cfg.Ingresses {
		patience = max(patience, drainTimeout(&cfg.Ingresses[i]))
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for d.admin.Permits() > 0 && time.Since(start) < patience {
		<-ticker.C
	}
	n := d.admin.Permits()
	if n > 0 {
		d.log.Warn("drain was cut short", slog.Int("permits_held_by_callers", n))
	}
	return n == 0
}

// runFronts waits for the end, and drains. It is the actor that stands for all
// ingresses.
func (d *Daemon) runFronts(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
	case failure := <-d.failed:
		err = fmt.Errorf("%w: %w", errIngressFailed, failure)
	}
	start := time.Now()
	served := d.drain(context.WithoutCancel(ctx))
	ended := d.awaitPermits(start)
	d.log.Info("drained")
	if err == nil && (!served || !ended) {
		return errCut
	}
	return err
}
