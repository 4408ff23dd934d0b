package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
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

// newFront builds an ingress without listening. The parts are d's. The gate is
// that of the front before it, where there is one that will do, so that limits
// that learned and permits in flight go on; nothing happens to it here.
func (d *Daemon) newFront(in *config.Ingress) (*front, error) {
	if _, known := d.protocols[in.Protocol]; !known {
		return nil, fmt.Errorf("ingress %s: protocol %s is not known", in.Name, in.Protocol)
	}
	policy, err := Policy(in, d.meet)
	if err != nil {
		return nil, err
	}
	f := &front{name: in.Name, ended: make(chan struct{})}
	if before, was := d.front(in.Name), d.ingress(in.Name); before != nil && was != nil && was.Protocol == in.Protocol && was.Trace == in.Trace {
		f.gate, f.trace, f.tap = before.gate, before.trace, before.tap
	} else {
		o := limiter.Options{Clock: d.clock, Observer: d.metrics.Gate(in.Name)}
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
	if f.server, err = d.protocols[in.Protocol].build(in, f.gate); err != nil {
		return nil, fmt.Errorf("ingress %s: %w", in.Name, err)
	}
	return f, nil
}

// start serves from ln and reports to the metrics.
func (d *Daemon) start(ctx context.Context, f *front, ln net.Listener) {
	if before := d.front(f.name); before != nil && before.gate == f.gate {
		f.gateUndo, before.gateUndo, before.succeeded = before.gateUndo, nil, true
	} else {
		f.gateUndo = append(f.gateUndo, d.metrics.Watch(f.name, f.gate))
		d.record(f)
	}
	if f.server == nil {
		return
	}
	f.undo = append(f.undo, d.metrics.WatchDoor(f.name, doorOf{f.server}))
	if f.server.Backends != nil {
		f.undo = append(f.undo, d.metrics.WatchBackends(f.name, f.server.Backends))
	}
	if f.server.Watch != nil {
		f.undo = append(f.undo, f.server.Watch())
	}
	f.ln = ln
	ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	go d.serveFront(ctx, f, ln)
	d.log.Info("ingress listens", slog.String("ingress", f.name), slog.String("address", ln.Addr().String()))
}

// serveFront runs one server to its end.
func (d *Daemon) serveFront(ctx context.Context, f *front, ln net.Listener) {
	defer close(f.ended)
	if err := f.server.Serve(ctx, ln); err != nil {
		d.log.Error("ingress failed", slog.String("ingress", f.name), slog.Any("error", err))
		d.fail(fmt.Errorf("ingress %s: %w", f.name, err))
	}
}

// drainFront stops one ingress: no new connections, new requests refused unless
// another front goes on with the gate, what is in progress finishes within the
// drain timeout.
func (d *Daemon) drainFront(ctx context.Context, f *front) (err error) {
	if !f.succeeded {
		f.gate.Drain()
	}
	if f.server != nil {
		if err = f.server.Drain(ctx); err != nil {
			d.log.Warn("drain was cut short", slog.String("ingress", f.name), slog.Any("error", err))
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
