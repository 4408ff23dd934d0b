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
	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/daemon/protocol"
	"github.com/admitd/admitd/lab/trace"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/shadow"
)

// probeTimeout bounds how long a backend may take to say what it is.
const probeTimeout = 3 * time.Second

// fronts are the ingresses that run, and the configuration that they run by: it
// is planned, then applied, and in the end drained. It is safe for concurrent
// use.
type fronts struct {
	*shared
	standing

	protocols  map[string]protocol.Opened
	inherited  map[string][]net.Listener // by ingress; opened by systemd; guarded by change
	recordings trace.Files
	overrides  *overrides
	memory     *memory
	stages     *stages
	club       *club
	sharers    int // gates that are expected to share rates; guarded by change
	failed     chan error

	change  sync.Mutex     // held while a configuration is applied, never by readers
	leaving sync.WaitGroup // fronts that drain; joined while change is held
}

// apply puts a configuration in force: builds everything that is new, and only
// then changes anything. anew says that it was read, not patched. fs.change is
// held.
func (fs *fronts) apply(ctx context.Context, cfg *config.Config, anew bool) error {
	if fs.isDraining() {
		return admin.ErrDraining
	}
	fs.sharers = cfg.Fleet.Gates
	join, err := fs.club.prepare(cfg)
	if err != nil {
		return err
	}
	plan, err := fs.plan(ctx, cfg)
	if err != nil {
		return err
	}
	next := make(map[string]*front, len(plan))
	for _, p := range plan {
		next[p.in.Name] = p.front
		p.policy.Witness = fs.stages.set(p.in, p.front.gate, p.candidates)
		p.front.gate.Apply(p.policy)
		if p.isNew {
			fs.start(ctx, p.front, p.ln)
			continue
		}
		if p.apply != nil {
			p.apply()
		}
	}
	old := fs.stand(next, cfg, anew)
	join()
	fs.stages.keep(next)
	for name, f := range old {
		if next[name] != f {
			fs.leaving.Go(func() { _ = fs.drainFront(context.WithoutCancel(ctx), f) }) // logged there
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

	front *front
	apply func() // puts the rest in force in a front that stays; nil = there is none
	ln    net.Listener
	isNew bool
}

// plan builds what cfg needs and opens its listeners. When anything fails
// nothing has changed.
func (fs *fronts) plan(ctx context.Context, cfg *config.Config) ([]planned, error) {
	cast, err := fs.cast(cfg)
	if err != nil {
		return nil, err
	}
	plan := make([]planned, 0, len(cfg.Ingresses))
	for i := range cfg.Ingresses {
		p, err := fs.planOne(ctx, &cfg.Ingresses[i])
		if err != nil {
			for _, opened := range plan {
				if opened.ln != nil {
					_ = opened.ln.Close()
				}
			}
			return nil, err
		}
		p.candidates = cast[p.in.Name]
		plan = append(plan, p)
	}
	return plan, nil
}

// planOne keeps the front that runs when it can take the change over, and else
// builds a new one on the same socket where the address stays.
func (fs *fronts) planOne(ctx context.Context, in *config.Ingress) (p planned, err error) {
	old := fs.ingress(in.Name)
	p = planned{in: in, front: fs.front(in.Name)}
	if p.policy, err = fs.policy(in); err != nil {
		return p, fmt.Errorf("ingress %s: %w", in.Name, err)
	}
	if old != nil && p.front != nil && !fs.protocols[in.Protocol].NeedsRestart(old, in) {
		if p.front.server != nil {
			if p.apply, err = p.front.server.Prepare(in); err != nil {
				err = fmt.Errorf("ingress %s: %w", in.Name, err)
			}
		}
		return p, err
	}
	if p.front, err = fs.newFront(in); err != nil {
		return p, err
	}
	p.isNew = true
	if p.front.server != nil {
		if err = fs.probe(ctx, p.front, in.Protocol); err == nil {
			p.ln, err = fs.listen(ctx, in)
		}
	}
	return p, err
}

// policy returns what an ingress is to enforce: what is configured, and the
// overrides over it.
func (fs *fronts) policy(in *config.Ingress) (*limiter.Policy, error) {
	p, err := Policy(in, fs.meet)
	if err != nil {
		return nil, err
	}
	err = fs.overrides.put(in, p, func(form *config.Partition) (limiter.PartitionPolicy, error) {
		return buildPartition(in, limiter.DefaultPartition, form, fs.meet)
	})
	fs.share(in, p)
	return p, err
}

// probe asks the backend of a new front whether its clients could walk around
// the gate. A backend that does not answer is no reason not to start: the gate
// checks again when it does.
func (fs *fronts) probe(ctx context.Context, f *front, protocol string) error {
	if f.server.Probe == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := f.server.Probe(ctx)
	if bypass := fs.protocols[protocol].Bypass; bypass != nil && errors.Is(err, bypass) {
		return fmt.Errorf("ingress %s: %w", f.name, err)
	}
	if err != nil {
		fs.log.Warn("backend does not answer yet", slog.String("ingress", f.name), slog.Any("error", err))
	}
	return nil
}

// drain stops every ingress and waits for all, those that a reload replaced
// included.
func (fs *fronts) drain(ctx context.Context) (clean bool) {
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
		fs.leaving.Go(func() {
			if fs.drainFront(ctx, f) != nil {
				cut.Store(true)
			}
		})
	}
	fs.change.Unlock()
	fs.leaving.Wait()
	return !cut.Load()
}
