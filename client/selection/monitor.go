package selection

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// MonitorOptions tune a [Monitor]. The zero value is ready for use.
type MonitorOptions struct {
	Seeds SeedOptions  // what is known of the deployment; the heartbeat is set here
	Check CheckOptions // how servers are asked
	Log   *slog.Logger // told when a server comes or goes, at info; nil = no logs
}

// Monitor keeps a [View] up to date: it asks every server of the topology for
// a hello once per heartbeat, and earlier when a selection waits, but never
// more often than [MinHeartbeat]. Make one with [NewMonitor] and run it with
// [Monitor.Run].
type Monitor struct {
	view  *View
	probe *prober
	log   *slog.Logger
}

// NewMonitor returns a monitor that starts from the seeds, each host:port. It
// does nothing before Run. The error matches [ErrSeeds].
func NewMonitor(seeds []string, o MonitorOptions) (*Monitor, error) {
	t, err := Seeds(seeds, o.Seeds)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Monitor{view: NewView(t), probe: newProber(o.Check), log: o.Log}, nil
}

// View returns the view that the monitor keeps.
func (m *Monitor) View() *View { return m.view }

// Run polls until ctx is done, then waits for the checks in progress, which
// are cancelled, and returns the context's error. Call it once.
func (m *Monitor) Run(ctx context.Context) error {
	watched := map[string]context.CancelFunc{}
	var watchers sync.WaitGroup
	defer m.probe.close()
	defer watchers.Wait()
	for {
		changed := m.view.Changed()
		t := m.view.Topology()
		m.follow(ctx, t, watched, &watchers)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// follow starts a watcher for every new member and stops those of the gone.
func (m *Monitor) follow(ctx context.Context, t *Topology, watched map[string]context.CancelFunc, wg *sync.WaitGroup) {
	if t.Type == LoadBalanced {
		return // behind one address are many servers: an answer would tell about one of them
	}
	for _, s := range t.Servers {
		if watched[s.Address] != nil {
			continue
		}
		own, stop := context.WithCancel(ctx)
		watched[s.Address] = stop
		wg.Go(func() { m.watch(own, s.Address) })
	}
	if len(watched) == len(t.Servers) {
		return
	}
	for address, stop := range watched {
		if t.Server(address) == nil {
			stop()
			delete(watched, address)
		}
	}
}

// watch asks one server until ctx is done.
func (m *Monitor) watch(ctx context.Context, address string) {
	for ctx.Err() == nil {
		requested := m.view.checkRequested()
		m.check(ctx, address)
		if !pause(ctx, MinHeartbeat, nil) {
			return
		}
		if !pause(ctx, m.view.Topology().heartbeat()-MinHeartbeat, requested) {
			return
		}
	}
}

// check asks once, and once more when the server is lost: often it only closed
// an idle connection, and nobody should have to wait a heartbeat for that.
func (m *Monitor) check(ctx context.Context, address string) {
	before := m.view.Topology().Server(address)
	lost, err := m.probe.check(ctx, m.view, address)
	if lost {
		_, err = m.probe.check(ctx, m.view, address)
	}
	after := m.view.Topology().Server(address)
	if ctx.Err() != nil || before == nil || after == nil || before.Type == after.Type {
		return
	}
	attrs := []slog.Attr{
		slog.String("server", address), slog.String("before", before.Type.String()), slog.String("now", after.Type.String()),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	m.log.LogAttrs(ctx, slog.LevelInfo, "server changed", attrs...)
}

// pause waits for d or, if earlier, for early. It returns false when ctx ended.
func pause(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-early:
	case <-timer.C:
	}
	return true
}
