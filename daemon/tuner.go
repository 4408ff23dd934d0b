package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/admitd/admitd/admin"
	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
	"github.com/admitd/admitd/tuner"
)

// steward runs the tuner of the configuration in force, and replaces it when
// its section changes. The zero value has none.
//
// It implements [admin.Tuner].
type steward struct {
	*shared

	settings *settings

	mu      sync.Mutex // guards the fields below; never held across a wait
	current *tuner.Tuner
	audit   *tuner.AuditFile // of current; nil = none
	section config.Tuner     // that current was built from
	changed chan struct{}    // has room for one: the configuration was read anew
}

func newSteward(s *settings) *steward {
	return &steward{shared: s.shared, settings: s, changed: make(chan struct{}, 1)}
}

// tuner returns the one that runs; nil when none does.
func (s *steward) tuner() *tuner.Tuner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// brief returns what the tuner does, in short; nil when none runs.
func (s *steward) brief() *status.Tuner {
	t := s.tuner()
	if t == nil {
		return nil
	}
	now := t.Status(-1)
	b := &status.Tuner{Mode: string(now.Mode), Hold: now.Hold, Policies: len(now.Policies)}
	for i := range now.Policies {
		p := &now.Policies[i]
		b.Changes, b.Reverts = b.Changes+p.Changes, b.Reverts+p.Reverts
		if p.Held != "" {
			b.Held = append(b.Held, p.Name)
		}
		if p.Locked {
			b.Locked = append(b.Locked, p.Name)
		}
	}
	for i := range now.Settings {
		b.Trials += now.Settings[i].Trials
		if now.Settings[i].ByHand {
			b.ByHand = append(b.ByHand, now.Settings[i].Setting)
		}
	}
	for _, r := range now.Records {
		switch r.Kind { //nolint:exhaustive // the others move nothing
		case tuner.KindChange, tuner.KindAdvice, tuner.KindTakeBack, tuner.KindRevert:
			b.Last = &status.TunerMove{ID: r.ID, At: r.At, Kind: string(r.Kind), Policy: r.Policy, Setting: r.Setting, Old: r.Old, New: r.New, Why: r.Why}
			return b
		}
	}
	return b
}

// reloaded tells that the configuration was read anew. It does not wait: who
// calls it may hold what the tuner waits for.
func (s *steward) reloaded() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// run is the actor. Every tuner has ended before the next begins.
func (s *steward) run(ctx context.Context) error {
	for ctx.Err() == nil {
		section := s.settings.running().Tuner
		next, err := s.build(&section)
		if err != nil { // checked before, so that only a file that went away is left
			s.log.Error("tuner does not run", slog.Any("error", err))
		}
		running, stop := context.WithCancel(ctx)
		var ended sync.WaitGroup
		if next != nil {
			ended.Go(func() {
				if err := next.Run(running); err != nil {
					s.log.Warn("a source of the tuner did not close", slog.Any("error", err))
				}
			})
		}
		s.awaitChange(ctx, &section)
		stop()
		ended.Wait()
		s.closeAudit()
	}
	return nil
}

// awaitChange returns when another section is in force.
func (s *steward) awaitChange(ctx context.Context, section *config.Tuner) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			if !reflect.DeepEqual(*section, s.settings.running().Tuner) {
				return
			}
		}
	}
}

// build makes the tuner of a section the current one; nil when there is nothing
// to tune.
func (s *steward) build(section *config.Tuner) (*tuner.Tuner, error) {
	var next *tuner.Tuner
	var audit *tuner.AuditFile
	o, err := tunerOptions(section)
	if err == nil && len(o.Policies)+len(o.Signals) > 0 {
		o.Log = s.log
		if section.AuditFile != "" {
			if audit, err = tuner.OpenAudit(section.AuditFile); err == nil {
				o.Audit = audit.Write
			}
		}
		if err == nil {
			next, err = tuner.New(time.Now(), &tunerGate{settings: s.settings}, o)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if next != nil && s.current != nil {
		next.Inherit(s.current)
	}
	s.current, s.audit, s.section = next, audit, *section
	return next, err
}

func (s *steward) closeAudit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.audit != nil {
		if err := errors.Join(s.audit.Err(), s.audit.Close()); err != nil {
			s.log.Warn("audit file of the tuner", slog.Any("error", err))
		}
		s.audit = nil
	}
}

// tunerGate is the daemon as the tuner sees it.
type tunerGate struct {
	settings *settings

	read     *config.Config // sections were made of it
	sections map[string]map[string]any
}

// Read implements [tuner.Gate]. It is called by one goroutine.
func (g *tunerGate) Read() tuner.State {
	cfg, generation := g.settings.fronts.inForce()
	if cfg != g.read {
		g.sections = make(map[string]map[string]any, len(cfg.Ingresses))
		for i := range cfg.Ingresses {
			g.sections[cfg.Ingresses[i].Name], _ = settingsOf(&cfg.Ingresses[i]).(map[string]any)
		}
		g.read = cfg
	}
	st := tuner.State{Generation: generation, Settings: g.sections, Vitals: map[string]tuner.Vitals{}}
	switch {
	case g.settings.fronts.isDraining():
		st.Hold = "the daemon drains"
	case !g.settings.clock.Trusted():
		st.Hold = "the clock is not trusted"
	}
	st.Objectives = make(map[string]time.Duration, len(cfg.Ingresses))
	for i := range cfg.Ingresses {
		st.Objectives[cfg.Ingresses[i].Name] = time.Duration(cfg.Ingresses[i].Objective)
	}
	for name := range g.sections {
		if f := g.settings.fronts.front(name); f != nil {
			g.vitals(name, f, st.Vitals)
		}
	}
	return st
}

// vitals reads one gate, as a whole and by the labels of its partitions.
func (g *tunerGate) vitals(name string, f *front, out map[string]tuner.Vitals) {
	status := f.gate.Status()
	all := tuner.Vitals{InFlight: status.InFlight, Queued: status.Queued, Latency: tuner.Latencies{}}
	for i := range status.Labels {
		l := &status.Labels[i]
		v := tuner.Vitals{
			Offered: l.Counts.Received(), Refused: refusedOf(&l.Counts), InFlight: l.InFlight, Queued: l.Queued,
			Latency: g.settings.metrics.Latencies(name, l.Label, limiter.Success),
		}
		out[name+"/"+l.Label] = v
		all.Offered += v.Offered
		all.Refused += v.Refused
		for bound, n := range v.Latency {
			all.Latency[bound] += n
		}
	}
	out[name] = all
}

func refusedOf(c *limiter.Counts) (n uint64) {
	for _, r := range c.Rejected {
		n += r
	}
	return n
}

// Patch implements [tuner.Gate].
func (g *tunerGate) Patch(ctx context.Context, generation uint64, ingress string, document []byte) error {
	var p admin.Patch
	decoder := json.NewDecoder(strings.NewReader(string(document)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	return g.settings.patchUnlessRead(ctx, generation, ingress, p)
}

// Tuner implements [admin.Tuner].
func (s *steward) Tuner(records int) (any, error) {
	t := s.tuner()
	if t == nil {
		return nil, admin.ErrNoTuner
	}
	return t.Status(records), nil
}

// TunerRecord implements [admin.Tuner].
func (s *steward) TunerRecord(id string) (any, error) {
	t := s.tuner()
	if t == nil {
		return nil, admin.ErrNoTuner
	}
	r, err := t.Record(id)
	return r, tunerError(err)
}

// FreezeTuner implements [admin.Tuner].
func (s *steward) FreezeTuner(by string) error {
	t := s.tuner()
	if t == nil {
		return admin.ErrNoTuner
	}
	t.Freeze(time.Now(), by)
	s.log.Warn("tuner is frozen", slog.String("by", by))
	return nil
}

// UnfreezeTuner implements [admin.Tuner].
func (s *steward) UnfreezeTuner(by, name string) error {
	t := s.tuner()
	if t == nil {
		return admin.ErrNoTuner
	}
	return tunerError(t.Unfreeze(time.Now(), by, name))
}

// RevertTuner implements [admin.Tuner].
func (s *steward) RevertTuner(ctx context.Context, by, id string) ([]string, error) {
	t := s.tuner()
	if t == nil {
		return nil, admin.ErrNoTuner
	}
	if id == "" {
		done, err := t.Revert(ctx, time.Now(), by)
		return done, tunerError(err)
	}
	setting, err := t.RevertOne(ctx, time.Now(), by, id)
	return []string{setting}, tunerError(err)
}

// tunerError words an error for the admin port.
func tunerError(err error) error {
	switch {
	case errors.Is(err, tuner.ErrNoRecord), errors.Is(err, tuner.ErrNoName):
		return fmt.Errorf("%w: %w", admin.ErrNotFound, err)
	case errors.Is(err, tuner.ErrNothingToRevert):
		return fmt.Errorf("%w: %w", admin.ErrConflict, err)
	}
	return err
}
