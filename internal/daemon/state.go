package daemon

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/admin/statusdoc"
	"github.com/admitd/admitd/internal/daemon/tunersetup"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// face is the daemon as the admin port and clients that ask see it. It
// implements [admin.State].
type adminView struct {
	*shared

	fronts      *runningIngresses
	settings    *settings
	tunerRunner *tunersetup.Runner
	loads       loads
}

// Health implements [admin.State].
func (fc *adminView) Health() admin.Health {
	h := admin.Health{}
	fc.fronts.mu.RLock()
	h.Listening, h.Draining = fc.fronts.running != nil, fc.fronts.draining
	leaving := fc.fronts.leavingSoon && !h.Draining
	fc.fronts.mu.RUnlock()
	if leaving {
		h.Draining = true
		h.Detail = append(h.Detail, "stops soon; requests are served until drainDelay is over")
	}
	if _, problems := fc.settings.last(); len(problems) > 0 {
		h.Detail = append(h.Detail, "the configuration on disk was refused, an earlier one is in force: "+strings.Join(problems, "; "))
	}
	if pending := fc.settings.awaiting(); len(pending) > 0 {
		h.Detail = append(h.Detail, "the configuration on disk differs in what takes effect after a restart only: "+strings.Join(pending, ", "))
	}
	h.Detail = append(h.Detail, fc.fronts.fleet.details()...)
	if detail := fc.fronts.memory.detail(); detail != "" {
		h.Detail = append(h.Detail, detail)
	}
	if s := fc.clock.Status(); !s.Trusted {
		h.Detail = append(h.Detail, "the clock is not trusted, adaptive limits are fixed: "+string(s.Reason))
	}
	return h
}

// Snapshot implements [admin.State].
func (fc *adminView) Snapshot(ingress string, o limiter.StatusOptions) statusdoc.Snapshot {
	c := fc.clock.Status()
	applied, problems := fc.settings.last()
	fs := fc.fronts
	overridden := fs.overrides.count()
	// Both have locks under which they ask which ingresses there are.
	group, tuned := fs.fleet.status(), fc.tunerRunner.Brief()
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	s := statusdoc.Snapshot{
		Version: fc.version, Started: fc.started, Draining: fs.draining || fs.leavingSoon,
		Clock: status.Clock{Trusted: c.Trusted, Mode: c.Mode.String(), Detail: strings.TrimSpace(c.State.String() + " " + string(c.Reason)), Faults: fc.clockFaults()},
		Config: status.Config{
			Path: fc.settings.path, LastSuccess: applied, LastSuccessful: len(problems) == 0, Problems: problems,
			Changed: len(fs.changes) + overridden,
		},
	}
	if group != nil {
		s.Process.Fleet = group.Mode
	}
	s.Process.Delay = fc.metrics.Delay
	s.Fleet, s.Tuner = group, tuned
	if list := fs.stages.reports(ingress); len(list) > 0 {
		s.Shadow = list
	}
	for i := range fs.cfg.Ingresses {
		in := &fs.cfg.Ingresses[i]
		if ingress != "" && ingress != in.Name {
			continue
		}
		f := fs.running[in.Name]
		row := statusdoc.Ingress{Name: in.Name, Protocol: in.Protocol, Listen: in.Listen, Backend: in.Backend, Gate: f.gate.Page(o), Glances: f.gate.Briefs(), Rows: f.gate.Rows}
		row.TopKeys = fc.crowd.Of(in.Name)
		row.Source = fc.settings.sourceOf(in)
		row.Pinned = fs.overrides.worded(in.Name)
		row.Elsewhere = elsewhere(group, in.Name)
		row.Recall = fs.memory.told(in)
		row.Own = func() map[float64]uint64 { return fc.metrics.OwnTimes(in.Name) }
		row.Latencies = fc.latencies(in.Name, row.Gate.Labels)
		if f.server != nil {
			door := f.server.Connections()
			row.Connections = &door
			if f.server.Backends != nil {
				row.Backends = f.server.Backends()
			}
			if f.server.Ungated != nil {
				row.Ungated = f.server.Ungated()
			}
			if f.server.Details != nil {
				row.Details = f.server.Details()
			}
			row.Listen = f.ln.Addr().String()
		}
		s.Ingresses = append(s.Ingresses, row)
	}
	return s
}

// latencies returns what counts the latencies of an ingress, over all labels of
// its partitions.
func (fc *adminView) latencies(name string, parts []limiter.LabelStatus) func() map[float64]uint64 {
	return func() map[float64]uint64 {
		sum := map[float64]uint64{}
		for i := range parts {
			for bound, n := range fc.metrics.Latencies(name, parts[i].Label, limiter.Success) {
				sum[bound] += n
			}
		}
		return sum
	}
}

// clockFaults counts what was found wrong with the clock.
func (fc *adminView) clockFaults() map[string]uint64 {
	out := map[string]uint64{}
	for reason, n := range fc.clock.Status().Counts {
		out[string(reason)] = n
	}
	return out
}

// hello describes one ingress, or with an empty name the whole daemon, to
// clients that select servers.
func (fc *adminView) hello(name string) (labels.Hello, bool) {
	load := fc.loads.of(name, fc.measure)
	fs := fc.fronts
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	h := labels.Hello{
		Name: name, Load: &load, MaxWireVersion: labels.WireVersion,
		Role: labels.Role(fs.cfg.Hello.Role), SetName: fs.cfg.Hello.SetName, Tags: maps.Clone(fs.cfg.Hello.Tags), Backpressure: true,
	}
	return h, !fs.draining && !fs.leavingSoon
}

// measure sums the load of one ingress, or with an empty name of all.
func (fc *adminView) measure(name string) (load labels.Load) {
	fs := fc.fronts
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	for fname, f := range fs.running {
		if name == "" || fname == name {
			held, limit := f.gate.Load()
			load.InFlight += held
			load.Limit += limit
		}
	}
	load.Headroom = max(load.Limit-load.InFlight, 0)
	return load
}

// loadAge is for how long one measurement of the load is told.
const loadAge = 50 * time.Millisecond

// loads remembers the load of each ingress for a moment: anyone may ask for it,
// without admission, and it takes time proportional to the partitions to measure.
// The zero value is ready.
type loads struct {
	mu   sync.Mutex // guards the field below; held while one caller measures
	seen map[string]seenLoad
}

type seenLoad struct {
	at   time.Time
	load labels.Load
}

// of returns the load of an ingress of the configuration, or of all.
func (l *loads) of(name string, measure func(name string) labels.Load) labels.Load {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.seen[name]; ok && time.Since(s.at) < loadAge {
		return s.load
	}
	if l.seen == nil {
		l.seen = map[string]seenLoad{}
	}
	s := seenLoad{load: measure(name), at: time.Now()}
	l.seen[name] = s
	return s.load
}
