package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/protocol"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/limiter"
)

// front is one ingress that runs: a gate, and the protocol's server before it.
type runningIngress struct {
	name   string
	gate   *limiter.Gate
	server *protocol.Server // nil for an ingress that serves the decision API only
	ln     net.Listener     // what server accepts from; nil without a server; guarded by standing.mu

	serve    func(ln net.Listener) // serves one more listener
	stop     context.CancelFunc
	serving  sync.WaitGroup // the listeners that are served
	patience time.Duration  // of a drain; guarded by runningIngresses.change
	undo     []func()       // undoes what was registered elsewhere

	trace    config.Trace // that the gate is recorded to; guarded by runningIngresses.change
	untraced func()       // ends the recording; nil = there is none
}

// newFront builds an ingress without listening.
func (fs *runningIngresses) newFront(in *config.Ingress) (*runningIngress, error) {
	if _, known := fs.protocols[in.Protocol]; !known {
		return nil, fmt.Errorf("ingress %s: protocol %s is not known", in.Name, in.Protocol)
	}
	policy, err := fs.policy(in)
	if err != nil {
		return nil, err
	}
	f := &runningIngress{name: in.Name, stop: func() {}, patience: protocol.DrainTimeout(in)}
	f.gate = limiter.New(in.Name, policy, limiter.Options{
		Clock: fs.clock, Observer: fs.metrics.Gate(in.Name), Recall: fs.memory.of(in),
	})
	if in.Listen == "" {
		return f, nil
	}
	if f.server, err = fs.protocols[in.Protocol].Build(in, f.gate); err != nil {
		return nil, fmt.Errorf("ingress %s: %w", in.Name, err)
	}
	return f, nil
}

// start serves from ln and reports to the metrics.
func (fs *runningIngresses) start(ctx context.Context, f *runningIngress, ln net.Listener) {
	f.undo = append(f.undo, fs.metrics.Watch(f.name, f.gate))
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
	fs.hold(f, ln)
	ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	f.serve = func(ln net.Listener) { f.serving.Go(func() { fs.serveFront(ctx, f, ln) }) }
	f.serve(ln)
	fs.log.Info("ingress listens", slog.String("ingress", f.name), slog.String("address", ln.Addr().String()))
}

// serveFront serves one listener to its end. Profiles say of which ingress the
// goroutines are.
func (fs *runningIngresses) serveFront(ctx context.Context, f *runningIngress, ln net.Listener) {
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

// drainFront stops one ingress: no new connections, new requests refused, what is in
// progress finishes within patience.
func (fs *runningIngresses) drainFront(ctx context.Context, f *runningIngress, patience time.Duration) (err error) {
	f.gate.Drain()
	if f.server != nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err = f.server.Drain(ctx); err != nil {
			fs.log.Warn("drain was cut short", slog.String("ingress", f.name), slog.Any("error", err))
		}
		f.stop()
		f.serving.Wait()
	}
	for _, undo := range f.undo {
		undo()
	}
	if f.untraced != nil {
		f.untraced()
	}
	return err
}

// doorOf lets the metrics read a server's connections.
type doorOf struct{ s *protocol.Server }

// Status implements [observe.DoorReader].
func (d doorOf) Status() ingress.Status { return d.s.Connections() }

// listen opens what runningIngresses are to listen on from now on, or nothing.
func (fs *runningIngresses) listen(ctx context.Context, plan []planned) (err error) {
	for i := range plan {
		p := &plan[i]
		if !p.listens {
			continue
		}
		if inherited := fs.inherited[p.in.Name]; len(inherited) > 0 {
			p.ln, p.inherited = inherited[0], true
		} else if p.ln, err = fs.listenOn(ctx, p.in); err != nil {
			break
		}
	}
	for _, p := range plan {
		if err != nil && p.ln != nil && !p.inherited { // nobody opens those again
			_ = p.ln.Close()
		}
	}
	return err
}

// listenOn opens the ingress's address, or takes over the socket that a front
// listens on already.
func (fs *runningIngresses) listenOn(ctx context.Context, in *config.Ingress) (net.Listener, error) {
	if held := fs.holder(in); held != nil {
		if ln, err := duplicate(held); err == nil {
			return ln, nil
		}
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", in.Listen)
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		if name, addr := fs.onPort(in); name != "" {
			return nil, fmt.Errorf("ingress %s: listen: %w (ingress %s listens on %s until the change is in force: an address that overlaps takes a restart)", in.Name, err, name, addr)
		}
	}
	return nil, fmt.Errorf("ingress %s: listen: %w", in.Name, err)
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

// traceTo has a front's gate recorded, or not any more. A gate that cannot record
// serves all the same.
func (fs *runningIngresses) traceTo(f *runningIngress, t config.Trace) {
	if f.trace == t {
		return
	}
	f.trace = t
	if f.untraced != nil {
		f.untraced()
		f.untraced = nil
	}
	if t.File == "" {
		return
	}
	failed := func(err error) {
		fs.log.Error("recording failed, nothing more is recorded", slog.String("ingress", f.name), slog.String("file", t.File), slog.Any("error", err))
	}
	recorder, leave, err := fs.recordings.Record(t.File, int64(t.MaxSize), failed)
	if err != nil {
		failed(err)
		return
	}
	f.gate.Trace(recorder)
	f.untraced = func() {
		f.gate.Trace(nil)
		if err := leave(); err != nil {
			failed(err)
		}
	}
}
