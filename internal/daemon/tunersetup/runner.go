// Package tunersetup runs the tuner of the configuration in force, and replaces it
// when its section changes. It builds signals, sources and policies from the
// section, and answers for the tuner at the admin port.
package tunersetup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/tuner"
	"github.com/admitd/admitd/status"
)

// Runner runs the tuner of the configuration in force. Between two sections, and
// before [Runner.Run], there is none. It implements [admin.Tuner] and is safe for
// concurrent use.
type Runner struct {
	log     *slog.Logger
	gate    tuner.Gate
	inForce func() *config.Config

	mu      sync.Mutex // guards the fields below; never held across a wait
	current *tuner.Tuner
	audit   *tuner.AuditFile // of current; nil = none
	section config.Tuner     // that current was built from
	kept    tuner.Kept       // of the tuner before; taken over by the next one
	changed chan struct{}    // has room for one: the configuration was read anew
	// keep is told that what [Runner.Kept] returns has changed; it does not wait.
	keep func()
}

// New returns a steward whose tuner moves the settings of g by the configuration
// in force, which it asks for from any goroutine. keep is told, without waiting, that
// [Runner.Kept] has changed. Nothing runs until [Runner.Run].
func New(log *slog.Logger, g tuner.Gate, inForce func() *config.Config, keep func()) *Runner {
	return &Runner{log: log, gate: g, inForce: inForce, changed: make(chan struct{}, 1), keep: keep}
}

// Kept returns what is to hold over a restart, as JSON: a freeze, the settings that
// people set or took back, and the policies that are locked.
func (s *Runner) Kept() []byte {
	s.mu.Lock()
	t, kept := s.current, s.kept
	s.mu.Unlock()
	if t != nil {
		kept = t.Kept()
	}
	b, err := json.Marshal(kept)
	if err != nil {
		return nil // it holds nothing that cannot be marshalled
	}
	return b
}

// Restore takes what [Runner.Kept] returned before a restart. Call it before
// [Runner.Run].
func (s *Runner) Restore(kept []byte) {
	if len(kept) == 0 {
		return
	}
	var k tuner.Kept
	if err := json.Unmarshal(kept, &k); err != nil {
		s.log.Warn("what was asked of the tuner before the restart cannot be read", slog.Any("error", err))
		return
	}
	if k.Frozen != nil {
		s.log.Warn("tuner is frozen, as before the restart", slog.String("by", k.Frozen.By), slog.Time("since", k.Frozen.At))
	}
	if len(k.ByHand)+len(k.Locked) > 0 {
		s.log.Info("the tuner leaves settings and policies alone, as before the restart", slog.Any("settings", k.ByHand), slog.Any("policies", k.Locked))
	}
	s.mu.Lock()
	s.kept = k
	s.mu.Unlock()
}

// tuner returns the one that runs; nil when none does.
func (s *Runner) tuner() *tuner.Tuner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Brief returns what the tuner does, in short; nil when none runs.
func (s *Runner) Brief() *status.Tuner {
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

// Reloaded tells that the configuration was read anew. It does not wait: who
// calls it may hold what the tuner waits for.
func (s *Runner) Reloaded() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Run is the actor of the daemon. Every tuner has ended before the next begins.
func (s *Runner) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		section := s.inForce().Tuner
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
func (s *Runner) awaitChange(ctx context.Context, section *config.Tuner) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			if !reflect.DeepEqual(*section, s.inForce().Tuner) {
				return
			}
		}
	}
}

// build makes the tuner of a section the current one; nil when there is nothing
// to tune.
func (s *Runner) build(section *config.Tuner) (*tuner.Tuner, error) {
	var next *tuner.Tuner
	var audit *tuner.AuditFile
	o, err := Options(section)
	if err == nil && len(o.Policies)+len(o.Signals) > 0 {
		o.Log = s.log
		if section.AuditFile != "" {
			audit, err = tuner.OpenAudit(section.AuditFile, s.auditFailed)
		}
		o.Audit = func(r *tuner.Record) { s.recorded(audit, r) }
		if err == nil {
			next, err = tuner.New(time.Now(), s.gate, o)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.kept = s.current.Kept()
	}
	if next != nil && s.current != nil {
		next.Inherit(s.current)
	} else if next != nil {
		next.Keep(s.kept)
	}
	s.current, s.audit, s.section = next, audit, *section
	return next, err
}

// recorded passes a record on to the audit file, which may be nil.
func (s *Runner) recorded(audit *tuner.AuditFile, r *tuner.Record) {
	if audit != nil {
		audit.Write(r)
	}
	switch r.Kind { //nolint:exhaustive // the others change nothing that is kept
	case tuner.KindFreeze, tuner.KindUnfreeze, tuner.KindRevert, tuner.KindManual, tuner.KindLock:
		s.keep()
	}
}

// auditFailed tells of a disk that fails, once until it is good again.
func (s *Runner) auditFailed(err error) {
	s.log.Error("the tuner's audit file cannot be written, decisions are kept in memory only", slog.Any("error", err))
}

func (s *Runner) closeAudit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.audit != nil {
		if err := s.audit.Close(); err != nil {
			s.auditFailed(err)
		}
		s.audit = nil
	}
}

// Tuner implements [admin.Tuner].
func (s *Runner) Tuner(records int) (any, error) {
	t := s.tuner()
	if t == nil {
		return nil, admin.ErrNoTuner
	}
	return t.Status(records), nil
}

// TunerRecord implements [admin.Tuner].
func (s *Runner) TunerRecord(id string) (any, error) {
	t := s.tuner()
	if t == nil {
		return nil, admin.ErrNoTuner
	}
	r, err := t.Record(id)
	return r, tunerError(err)
}

// FreezeTuner implements [admin.Tuner].
func (s *Runner) FreezeTuner(by string) error {
	t := s.tuner()
	if t == nil {
		return admin.ErrNoTuner
	}
	t.Freeze(time.Now(), by)
	s.log.Warn("tuner is frozen", slog.String("by", by))
	return nil
}

// UnfreezeTuner implements [admin.Tuner].
func (s *Runner) UnfreezeTuner(by, name string) error {
	t := s.tuner()
	if t == nil {
		return admin.ErrNoTuner
	}
	if err := t.Unfreeze(time.Now(), by, name); err != nil {
		return tunerError(err)
	}
	s.log.Warn("tuner is released", slog.String("by", by), slog.String("name", name))
	return nil
}

// RevertTuner implements [admin.Tuner].
func (s *Runner) RevertTuner(ctx context.Context, by, id string) ([]string, error) {
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
