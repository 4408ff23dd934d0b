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

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/protocol"
	"github.com/admitd/admitd/internal/lab/trace"
	"github.com/admitd/admitd/internal/shadow"
	"github.com/admitd/admitd/limiter"
)

// probeTimeout bounds how long a backend may take to say what it is.
const probeTimeout = 3 * time.Second

// runningIngresses are the ingresses that run, and the configuration that they run by: it
// is planned, then applied, and in the end drained. It is safe for concurrent
// use.
type runningIngresses struct {
	*shared
	runningState

	protocols  map[string]protocol.Opened
	inherited  map[string][]net.Listener // by ingress; opened by systemd; guarded by change
	recordings trace.Files
	overrides  *overrides
	capacities capacities
	memory     *stateFile
	stages     *shadowStages
	fleet      *fleetMember
	sharers    int // gates that are expected to share rates; guarded by change
	failed     chan error

	change  sync.Mutex     // held while a configuration is applied, never by readers
	leaving sync.WaitGroup // runningIngresses that drain; joined while change is held
}

// apply puts a configuration in force: builds everything that is new, and only
// then changes anything. anew says that it was read, not patched: what was patched
// changes ingresses that run in what may change at run time, and reads no file.
// fs.change is held.
func (fs *runningIngresses) apply(ctx context.Context, cfg *config.Config, anew bool) error {
	if fs.isDraining() {
		return admin.ErrDraining
	}
	fs.sharers = cfg.Fleet.Gates
	join, err := fs.fleet.prepare(cfg, anew)
	if err != nil {
		return err
	}
	plan, err := fs.plan(ctx, cfg, anew)
	if err != nil {
		return err
	}
	next := make(map[string]*runningIngress, len(plan))
	for _, p := range plan {
		next[p.in.Name] = p.front
		p.policy.Witness = fs.stages.set(p.in, p.front.gate, p.candidates)
		p.front.gate.Apply(p.policy)
		if p.change.Apply != nil {
			p.change.Apply()
		}
		if p.inherited {
			fs.inherited[p.in.Name] = fs.inherited[p.in.Name][1:]
		}
		switch {
		case p.isNew:
			fs.start(ctx, p.front, p.ln)
		case p.ln != nil:
			before := fs.hold(p.front, p.ln)
			p.front.serve(p.ln)
			_ = before.Close() // its connections stay
			fs.log.Info("ingress listens", slog.String("ingress", p.in.Name), slog.String("address", p.ln.Addr().String()))
		}
		fs.traceTo(p.front, p.in.Trace)
		p.front.patience = protocol.DrainTimeout(p.in)
	}
	old := fs.stand(next, cfg, anew)
	join()
	fs.stages.keep(next)
	for name, f := range old {
		if next[name] != f {
			patience := f.patience
			fs.leaving.Go(func() { _ = fs.drainFront(context.WithoutCancel(ctx), f, patience) }) // logged there
		}
	}
	return nil
}

// planned is one ingress of a configuration that is about to be applied.
type planned struct {
	in     *config.Ingress
	policy *limiter.Policy
	// candidates that play beside the policy; none = nobody watches it.
	candidates []shadow.Candidate

	front     *runningIngress
	isNew     bool
	change    protocol.Change // of a front that stays
	listens   bool            // it is to serve another listener
	ln        net.Listener    // that one; nil = there is none, or no server
	inherited bool            // ln was open before the daemon began
}

// plan builds what cfg needs and opens its listeners. When anything fails
// nothing has changed.
func (fs *runningIngresses) plan(ctx context.Context, cfg *config.Config, anew bool) ([]planned, error) {
	fs.capacities.plan(cfg)
	cast, err := fs.cast(cfg)
	if err != nil {
		return nil, err
	}
	plan := make([]planned, len(cfg.Ingresses))
	for i := range plan {
		if plan[i], err = fs.planOne(&cfg.Ingresses[i], anew); err != nil {
			return nil, err
		}
		plan[i].candidates = cast[cfg.Ingresses[i].Name]
	}
	if err := fs.probe(ctx, plan); err != nil {
		return nil, err
	}
	return plan, fs.listen(ctx, plan)
}

// planOne keeps the front that runs when it can take the change over, and else
// builds a new one.
func (fs *runningIngresses) planOne(in *config.Ingress, anew bool) (p planned, err error) {
	old := fs.ingress(in.Name)
	p = planned{in: in, front: fs.front(in.Name)}
	if p.policy, err = fs.policy(in); err != nil {
		return p, fmt.Errorf("ingress %s: %w", in.Name, err)
	}
	if old == nil || p.front == nil || protocol.Replaces(old, in) {
		p.isNew = true
		p.front, err = fs.newFront(in)
		p.listens = p.front != nil && p.front.server != nil
		return p, err
	}
	server := p.front.server
	switch {
	case server == nil:
	case !anew:
		p.change.Apply = func() { server.Set(in) }
	default:
		p.listens = fs.protocols[in.Protocol].NeedsListener(old, in)
		if p.change, err = server.Prepare(in); err != nil {
			err = fmt.Errorf("ingress %s: %w", in.Name, err)
		}
	}
	return p, err
}

// policy returns what an ingress is to enforce: what is configured, and the
// overrides over it.
func (fs *runningIngresses) policy(in *config.Ingress) (*limiter.Policy, error) {
	p, err := Policy(in, fs.meet)
	if err != nil {
		return nil, err
	}
	if c, ok := fs.capacities.of[in.Name]; ok {
		p.Backend = c.backend
		if err := shareBackend(p, in, c.lead, fs.meet); err != nil {
			return nil, err
		}
	}
	err = fs.overrides.put(in, p, func(form *config.Partition) (limiter.PartitionPolicy, error) {
		pp, err := buildPartition(in, limiter.DefaultPartition, form, fs.meet)
		if p.Common != nil {
			joinCommon(&pp, &form.Limit)
		} else if p.Shared && form.Limit.Algorithm == algorithms.KindFixed {
			pp.MaxInFlight = form.Limit.Limit
		}
		return pp, err
	})
	fs.share(in, p)
	return p, err
}

// probe asks the backends that are new, all at once, whether clients could walk
// around the gate. A backend that does not answer is no reason not to start: the
// gate checks again when it does.
func (fs *runningIngresses) probe(ctx context.Context, plan []planned) error {
	bounded, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	found := make([]error, len(plan))
	var asked sync.WaitGroup
	for i, p := range plan {
		ask := p.change.Probe
		if p.isNew && p.front.server != nil {
			ask = p.front.server.Probe
		}
		if ask != nil {
			asked.Go(func() { found[i] = ask(bounded) })
		}
	}
	asked.Wait()
	for i, err := range found {
		if bypass := fs.protocols[plan[i].in.Protocol].Bypass; bypass != nil && errors.Is(err, bypass) {
			return fmt.Errorf("ingress %s: %w", plan[i].in.Name, err)
		}
		if err != nil && ctx.Err() != nil { // nobody waits for the change
			return fmt.Errorf("ingress %s: stopped while its backend was asked what it is: %w", plan[i].in.Name, ctx.Err())
		}
		if err != nil {
			fs.log.Warn("backend does not answer yet", slog.String("ingress", plan[i].in.Name), slog.Any("error", err))
		}
	}
	return nil
}

// drain stops every ingress and waits for all, those that a reload replaced
// included.
func (fs *runningIngresses) drain(ctx context.Context) (clean bool) {
	fs.change.Lock() // a configuration that is being applied comes first
	fs.mu.Lock()
	running := fs.running
	for _, f := range running {
		f.gate.Drain() // before anybody is told that the daemon drains
	}
	fs.draining = true
	fs.mu.Unlock()
	fs.log.Info("draining") // not before it is true
	var cut atomic.Bool
	for _, f := range running {
		patience := f.patience
		fs.leaving.Go(func() {
			if fs.drainFront(ctx, f, patience) != nil {
				cut.Store(true)
			}
		})
	}
	fs.change.Unlock()
	fs.leaving.Wait()
	return !cut.Load()
}
