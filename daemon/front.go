package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/pprof"
	"slices"

	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/limiter"
)

// front is one ingress that runs: a gate, and the protocol's server before it.
type front struct {
	name   string
	gate   *limiter.Gate
	server *Server      // nil for an ingress that serves the decision API only
	ln     net.Listener // what server accepts from; nil without a server

	stop  context.CancelFunc
	ended chan struct{} // closed when the server has returned
	undo  []func()      // undoes what was registered elsewhere for the server

	gateUndo  []func() // the same for the gate
	succeeded bool     // another front goes on with the gate

	trace config.Trace
	tap   *tap // what the gate is asked is recorded through; nil = it is not
}

// newFront builds an ingress without listening. The gate is
// that of the front before it, where there is one that will do, so that limits
// that learned and permits in flight go on; nothing happens to it here.
func (fs *fronts) newFront(in *config.Ingress) (*front, error) {
	if _, known := fs.protocols[in.Protocol]; !known {
		return nil, fmt.Errorf("ingress %s: protocol %s is not known", in.Name, in.Protocol)
	}
	policy, err := fs.policy(in)
	if err != nil {
		return nil, err
	}
	f := &front{name: in.Name, ended: make(chan struct{})}
	if before, was := fs.front(in.Name), fs.ingress(in.Name); before != nil && was != nil && was.Protocol == in.Protocol && was.Trace == in.Trace {
		f.gate, f.trace, f.tap = before.gate, before.trace, before.tap
	} else {
		o := limiter.Options{Clock: fs.clock, Observer: fs.metrics.Gate(in.Name), Recall: fs.memory.of(in)}
		if in.Trace.File != "" {
			f.trace, f.tap = in.Trace, &tap{}
			o.Tracer = f.tap
		}
		f.gate = limiter.New(in.Name, policy, o)
	}
	if in.Listen == "" && in.Backend == "" {
		close(f.ended)
		return f, nil
	}
	if f.server, err = fs.protocols[in.Protocol].build(in, f.gate); err != nil {
		return nil, fmt.Errorf("ingress %s: %w", in.Name, err)
	}
	return f, nil
}

// start serves from ln and reports to the metrics.
func (fs *fronts) start(ctx context.Context, f *front, ln net.Listener) {
	if before := fs.front(f.name); before != nil && before.gate == f.gate {
		f.gateUndo, before.gateUndo, before.succeeded = before.gateUndo, nil, true
	} else {
		f.gateUndo = append(f.gateUndo, fs.metrics.Watch(f.name, f.gate))
		fs.record(f)
	}
	if f.server == nil {
		return
	}
	f.undo = append(f.undo, fs.metrics.WatchDoor(f.name, doorOf{f.server}))
	if f.server.Backends != nil {
		f.undo = append(f.undo, fs.metrics.WatchBackends(f.name, f.server.Backends))
	}
	if f.server.Watch != nil {
		f.undo = append(f.undo, f.server.Watch())
	}
	f.ln = ln
	ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	go fs.serveFront(ctx, f, ln)
	fs.log.Info("ingress listens", slog.String("ingress", f.name), slog.String("address", ln.Addr().String()))
}

// serveFront runs one server to its end. Profiles say of which ingress the
// goroutines are.
func (fs *fronts) serveFront(ctx context.Context, f *front, ln net.Listener) {
	defer close(f.ended)
	var err error
	pprof.Do(ctx, pprof.Labels("ingress", f.name), func(ctx context.Context) { err = f.server.Serve(ctx, ln) })
	if err == nil {
		return
	}
	fs.log.Error("ingress failed", slog.String("ingress", f.name), slog.Any("error", err))
	select {
	case fs.failed <- fmt.Errorf("ingress %s: %w", f.name, err):
	default: // the daemon is ending already
	}
}

// drainFront stops one ingress: no new connections, new requests refused unless
// another front goes on with the gate, what is in progress finishes within the
// drain timeout.
func (fs *fronts) drainFront(ctx context.Context, f *front) (err error) {
	if !f.succeeded {
		f.gate.Drain()
	}
	if f.server != nil {
		if err = f.server.Drain(ctx); err != nil {
			fs.log.Warn("drain was cut short", slog.String("ingress", f.name), slog.Any("error", err))
		}
		f.stop()
		<-f.ended
	}
	for _, undo := range slices.Concat(f.undo, f.gateUndo) {
		undo()
	}
	return err
}

// doorOf lets the metrics read a server's connections.
type doorOf struct{ s *Server }

// Status implements [observe.DoorReader].
func (d doorOf) Status() ingress.Status { return d.s.Connections() }

// listen opens the ingress's address, or takes over the socket that systemd
// opened under the ingress's name, or the one that a front listens on already.
func (fs *fronts) listen(ctx context.Context, in *config.Ingress) (net.Listener, error) {
	if inherited := fs.inherited[in.Name]; len(inherited) > 0 {
		fs.inherited[in.Name] = inherited[1:]
		return inherited[0], nil
	}
	if held := fs.holder(in); held != nil {
		if ln, err := duplicate(held); err == nil {
			return ln, nil
		}
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", in.Listen)
	if err != nil {
		return nil, fmt.Errorf("ingress %s: listen: %w", in.Name, err)
	}
	return ln, nil
}

// holder returns the listener that runs on the ingress's address, nil when
// there is none. It may be another ingress's, which was renamed or has another
// address from now on. Port 0 means a port of one's own.
func (fs *fronts) holder(in *config.Ingress) net.Listener {
	_, port, _ := net.SplitHostPort(in.Listen) // the configuration was validated
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if fs.cfg == nil {
		return nil
	}
	for i := range fs.cfg.Ingresses {
		old := &fs.cfg.Ingresses[i]
		if old.Listen == in.Listen && (port != "0" || old.Name == in.Name) {
			return fs.running[old.Name].ln
		}
	}
	return nil
}

// duplicate returns a second listener on the same socket, so that an ingress
// can be replaced without a moment in which nobody listens.
func duplicate(ln net.Listener) (net.Listener, error) {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	file, err := tcp.File()
	if err != nil {
		return nil, fmt.Errorf("listener: %w", err)
	}
	defer file.Close()
	copied, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("listener: %w", err)
	}
	return copied, nil
}

// needsRestart reports whether the change between two forms of an ingress goes
// beyond what a running server can take over.
func needsRestart(p *Protocol, old, next *config.Ingress) bool {
	return structure(p, *old) != structure(p, *next)
}

// structure renders what of an ingress cannot change while its server runs. It
// compares as text, since a configuration that was rendered and read again has
// empty lists where there were none.
func structure(p *Protocol, in config.Ingress) string {
	in.Mode, in.Requests.Rate, in.Requests.BurstSeconds, in.Requests.QueueDepth = "", 0, 0, 0
	in.Requests.Shared = false
	in.Connections = config.Connections{}
	in.Partitions.Max, in.Partitions.Total, in.Partitions.Share, in.Classes.Floor = 0, 0, "", nil
	in.Partitions.Default, in.Partitions.Named = config.Partition{}, nil
	if p.InPlace != nil {
		p.InPlace(&in)
	}
	one := config.Config{Ingresses: []config.Ingress{in}}
	b, err := one.Effective()
	if err != nil {
		return err.Error()
	}
	return string(b)
}
