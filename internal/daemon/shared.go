package daemon

import (
	"context"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/protocol"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/descriptors"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/internal/tracing"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/observe"
)

// shared is what all ingresses share.
type shared struct {
	version string
	started time.Time
	log     *slog.Logger
	level   *slog.LevelVar
	clock   *clock.Guard
	zero    int64 // of the clock, at started
	metrics *observe.Metrics
	files   *descriptors.Account // of the process
	crowd   *topkeys.Counter
	counts  ingress.AllCounts
	tail    *observe.Tail   // the last lines of the log
	spool   *observe.Spool  // through which they go out
	tracer  *tracing.Tracer // set before anything serves; nil = nothing is traced
}

// logFormat chooses the form of the log where the configuration leaves it open:
// text where a person reads.
func logFormat(configured string, terminal bool) string {
	switch {
	case configured != "auto":
		return configured
	case terminal:
		return "text"
	}
	return "json"
}

// newShared builds what a configuration says of it.
func newShared(cfg *config.Config, o *Options) (*shared, error) {
	out := o.Log
	if out == nil {
		out = io.Discard
	}
	spool := &observe.Spool{Out: out}
	tail := &observe.Tail{Out: spool}
	log, level, err := observe.NewLogger(tail, observe.LogOptions{Format: logFormat(cfg.Log.Format, o.Terminal), Level: cfg.Log.Level})
	if err != nil {
		return nil, err
	}
	mode, err := clock.ParseMode(cfg.Clock.Fallback)
	if err != nil {
		return nil, err
	}
	spool.Lost = func(lines uint64) {
		log.Warn("lines of the log were lost while nobody read it", slog.Uint64("lines", lines))
	}
	s := &shared{
		spool: spool, version: o.Version, started: time.Now(), log: log, level: level, files: descriptors.New(nil), crowd: &topkeys.Counter{}, tail: tail,
		metrics: observe.New(observe.Options{Version: o.Version, Process: true}),
	}
	s.clock = clock.New(clock.Options{Mode: mode, Shortest: shortest(cfg), Fault: o.Fault, OnChange: s.clockChanged})
	s.zero = s.clock.Now() - int64(time.Since(s.started))
	s.metrics.WatchClock(s.clockState)
	if o.Fault != nil {
		log.Warn("rehearsing a clock fault: readings of the clock are bent on purpose")
	}
	return s, nil
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
func (sh *shared) clockChanged(s clock.Status) {
	attrs := []any{slog.String("state", s.State.String()), slog.String("reason", string(s.Reason)), slog.String("source", s.Source)}
	if s.Trusted {
		sh.log.Info("clock state changed", attrs...)
		return
	}
	sh.log.Warn("clock is not trusted: adaptive limits are fixed until it recovers", attrs...)
}

// clockState tells the metrics of the clock.
func (sh *shared) clockState() observe.ClockState {
	s := sh.clock.Status()
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

// retune takes over what all ingresses share and can change at run time.
func (sh *shared) retune(cfg *config.Config) {
	if err := sh.level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		sh.log.Error("log level stays", slog.Any("error", err))
	}
	if mode, err := clock.ParseMode(cfg.Clock.Fallback); err == nil {
		sh.clock.SetMode(mode)
	}
	sh.clock.SetShortest(shortest(cfg))
}

// kit returns what sh lends to who builds servers.
func (sh *shared) kit(hello func(ingress string) (labels.Hello, bool)) *protocol.Kit {
	return &protocol.Kit{
		Log: sh.log, Clock: sh.clock, Descriptors: sh.files, Hello: hello, HTTPObserver: protocol.Traced(func() *tracing.Tracer { return sh.tracer }, sh.metrics), TopKeys: sh.crowd.Of, Counts: sh.counts.Of, Own: sh.metrics.Own,
		Register: func(all ...prometheus.Collector) error {
			for _, c := range all {
				if err := sh.metrics.Register(c); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// bounded returns ln as a listener that leaves descriptors to others; spare says
// that it gets some also when clients have all of theirs. yield closes one of its
// connections that is idle, and reports whether there was one.
func (sh *shared) bounded(ln net.Listener, name string, part int64, spare bool, yield func() bool) net.Listener {
	var seldom ingress.LogLimiter
	return sh.files.Listen(ln, descriptors.Share{Part: part, Spare: spare, Yield: yield, Refused: func() {
		if n := seldom.Due(int64(time.Since(sh.started))); n > 0 {
			sh.log.Warn("connections refused: too few file descriptors", slog.String("listener", name), slog.Int64("connections", n))
		}
	}})
}

// lastExport is how long the spans that wait at the end have.
const lastExport = 3 * time.Second

// newTracer returns the tracer of the configuration; nil = nothing is traced.
func newTracer(ctx context.Context, c *config.Tracing, version string, log *slog.Logger) (*tracing.Tracer, error) {
	if c.Endpoint == "" {
		return nil, nil //nolint:nilnil // nil means no tracing, as documented
	}
	headers := make(map[string]string, len(c.Headers))
	for name, value := range c.Headers {
		headers[name] = value.Reveal()
	}
	return tracing.New(ctx, tracing.Options{
		Endpoint: c.Endpoint, SampleRatio: c.SampleRatio, Headers: headers, Version: version, Log: log,
	})
}

// closeTracer exports what waits.
func (sh *shared) closeTracer(ctx context.Context) {
	if sh.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastExport)
	defer cancel()
	if err := sh.tracer.Close(ctx); err != nil {
		sh.log.Warn("the last traces were lost", slog.Any("error", err))
	}
}
