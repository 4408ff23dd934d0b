package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/config/watch"
	"github.com/admitd/admitd/internal/daemon/tunersetup"
)

// settings is the configuration in force as operators see and change it. It
// implements [admin.Settings].
type settings struct {
	*shared

	fronts   *runningIngresses
	path     string                   // of the file; "" = built in
	env      []string                 // overrides of the file
	watcher  *watch.Watcher           // nil without a file
	setToken func(token string) error // of the admin port
	// setDecisionsToken replaces the token of the decisions listener.
	setDecisionsToken func(token string) error
	reloaded          func() // told of a configuration that was read

	sources sources      // where the file says what is in force
	worded  settingsText // settings of ingresses, as patches

	mu       sync.Mutex // guards the fields below; never held across a wait
	applied  time.Time
	problems []string // of the last configuration that was refused
	pending  []string // sections of the last one that take effect after a restart only
}

// last returns when a configuration was put in force last, and the problems of
// one that was refused since.
func (s *settings) last() (applied time.Time, problems []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied, s.problems
}

// awaiting returns the sections of the configuration on disk that wait for a restart.
func (s *settings) awaiting() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}

// took notes that a configuration is in force.
func (s *settings) took() {
	s.mu.Lock()
	s.applied, s.problems = time.Now(), nil
	s.mu.Unlock()
	s.metrics.Reloaded(true, time.Now())
}

// Config implements [admin.Settings].
func (s *settings) Config() any {
	b, err := s.running().Effective()
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return json.RawMessage(b)
}

// Reload implements [admin.Settings]: it reads the file and puts it in force.
func (s *settings) Reload(ctx context.Context, by string) ([]admin.Move, error) {
	if s.path == "" {
		return nil, &admin.Invalid{Problems: []string{"this daemon runs on a built-in configuration"}}
	}
	content, err := config.Reread(s.path)
	if s.watcher != nil { // it must offer what comes next, even if it is what ran before
		seen := watch.Hash{}
		if err == nil {
			seen = watch.HashOf(content)
		}
		s.watcher.Saw(seen)
	}
	if err != nil {
		s.refuse([]string{err.Error()})
		return nil, &admin.Invalid{Problems: []string{err.Error()}}
	}
	return s.load(ctx, content, by)
}

// load parses content and puts it in force, or keeps what runs. It returns what
// that changed.
func (s *settings) load(ctx context.Context, content []byte, by string) ([]admin.Move, error) {
	s.fronts.change.Lock()
	defer s.fronts.change.Unlock()
	cfg, err := config.Parse(s.path, content, s.env)
	before := s.running()
	var token, callers string
	if err == nil {
		token, callers, err = readTokens(cfg)
	}
	if err == nil {
		_, err = tunersetup.Options(&cfg.Tuner)
	}
	if err == nil {
		s.fronts.memory.remember()
		err = s.fronts.apply(ctx, cfg, true)
	}
	if errors.Is(err, admin.ErrDraining) {
		return nil, err
	}
	if err != nil {
		invalid := &admin.Invalid{Problems: problemsOf(err)}
		s.refuse(invalid.Problems)
		return nil, invalid
	}
	s.took()
	dropped := s.setToken(token) != nil
	if dropped {
		s.log.Warn("the admin port keeps its token, for others than this machine can reach it; restart to serve without one")
	}
	if s.setDecisionsToken(callers) != nil {
		s.log.Warn("the decisions listener keeps its token, for others than this machine can reach it; restart to serve without one")
		cfg.Decisions.TokenFile = before.Decisions.TokenFile
	}
	inForce := s.kept(before, cfg, dropped)
	s.fronts.keep(inForce)
	s.retune(inForce)
	s.reloaded()
	s.sources.read(s.path, content, s.env)
	moves := movesOf(before, inForce)
	s.audit(moves, by)
	s.log.Info("configuration is in force", slog.String("path", s.path), slog.Int("ingresses", len(cfg.Ingresses)),
		slog.Int("changed", len(moves)), slog.String("by", by))
	return moves, nil
}

// maxAudit bounds the lines about one change.
const maxAudit = 100

// audit writes one line for each setting that was changed.
func (s *settings) audit(moves []admin.Move, by string) {
	for i, m := range moves {
		if i == maxAudit {
			s.log.Info("further settings changed", slog.Int("settings", len(moves)-i), slog.String("by", by))
			return
		}
		s.log.Info("setting changed", slog.String("setting", m.Setting), slog.Any("before", m.Before), slog.Any("after", m.After), slog.String("by", by))
	}
}

// Ingress implements [admin.Settings].
func (s *settings) Ingress(name string) (any, error) {
	in := s.fronts.ingress(name)
	if in == nil {
		return nil, admin.ErrUnknownIngress
	}
	return s.worded.of(in), nil
}

// running returns the configuration in force.
func (s *settings) running() *config.Config {
	cfg, _ := s.fronts.inForce()
	return cfg
}

// kept returns cfg with those settings that cannot change at run time as they
// are in force, and names each that differs. dropped says that the token's file
// was left out and the token is kept all the same.
func (s *settings) kept(running, cfg *config.Config, dropped bool) *config.Config {
	c := *cfg
	c.Admin.Listen, c.Admin.Insecure, c.Admin.Reads = running.Admin.Listen, running.Admin.Insecure, running.Admin.Reads
	if dropped {
		c.Admin.TokenFile = running.Admin.TokenFile
	}
	c.Decisions = running.Decisions
	c.Decisions.TokenFile = cfg.Decisions.TokenFile
	c.Log.Format, c.Tracing, c.StateFile = running.Log.Format, running.Tracing, running.StateFile
	var pending []string
	for key, changed := range map[string]bool{
		"admin":      c.Admin != cfg.Admin,
		"decisions":  c.Decisions != cfg.Decisions,
		"log.format": c.Log.Format != cfg.Log.Format,
		"stateFile":  c.StateFile != cfg.StateFile,
		"tracing":    !reflect.DeepEqual(c.Tracing, cfg.Tracing),
	} {
		if changed {
			s.log.Warn("this setting takes effect after a restart only", slog.String("key", key))
			pending = append(pending, key)
		}
	}
	slices.Sort(pending)
	s.mu.Lock()
	s.pending = pending
	s.mu.Unlock()
	s.metrics.RestartPending(len(pending))
	return &c
}

// refuse notes that a configuration was refused; the running one stays.
func (s *settings) refuse(problems []string) {
	s.mu.Lock()
	s.problems = problems
	s.mu.Unlock()
	s.metrics.Reloaded(false, time.Now())
	s.log.Error("configuration refused, the running one stays", slog.String("path", s.path), slog.Any("problems", problems))
}

// lost notes that the file cannot be read any more.
func (s *settings) lost(err error) {
	s.log.Warn("configuration file cannot be read, the running one stays", slog.String("path", s.path), slog.Any("error", err))
}

// notApplied returns why a change was not put in force, for the admin port.
func notApplied(err error) error {
	if errors.Is(err, admin.ErrDraining) {
		return err
	}
	return &admin.Invalid{Problems: problemsOf(err)}
}

// problemsOf splits an error into what an operator reads line by line.
func problemsOf(err error) []string {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return []string{err.Error()}
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return lines
}

// Patch implements [admin.Settings]: it changes one ingress until the next
// reload, validated as the file is.
func (s *settings) Patch(ctx context.Context, name string, p admin.Patch) (before, after any, err error) {
	s.fronts.change.Lock()
	defer s.fronts.change.Unlock()
	return s.patch(ctx, name, p)
}

// errReadAnew refuses a change that was meant for another configuration.
var errReadAnew = errors.New("the configuration was read anew meanwhile")

// patchUnlessRead is [settings.Patch] for the configuration of a generation.
func (s *settings) patchUnlessRead(ctx context.Context, generation uint64, name string, p admin.Patch) error {
	s.fronts.change.Lock()
	defer s.fronts.change.Unlock()
	if _, now := s.fronts.inForce(); now != generation {
		return errReadAnew
	}
	_, _, err := s.patch(ctx, name, p)
	return err
}

// patch is [settings.Patch]. The runningIngresses' change is held.
func (s *settings) patch(ctx context.Context, name string, p admin.Patch) (before, after any, err error) {
	if p.Check != nil {
		if err := p.Check(); err != nil {
			return nil, nil, err
		}
	}
	return s.patchBy(ctx, name, p.Settings, p.By)
}

// patchBy is [settings.patch] with the words of the configuration.
func (s *settings) patchBy(ctx context.Context, name string, document []byte, by string) (before, after any, err error) {
	old := s.fronts.ingress(name)
	if old == nil {
		return nil, nil, admin.ErrUnknownIngress
	}
	next, err := s.running().Patch(name, document)
	if err == nil {
		err = s.fronts.apply(ctx, next, false)
	}
	if err != nil {
		return nil, nil, notApplied(err)
	}
	before, after = old.Runtime(), s.fronts.ingress(name).Runtime()
	d := difference{ingress: name}
	d.below(nil, before, after)
	if len(d.found) > 0 {
		s.log.Info("runtime settings changed", slog.String("ingress", name), slog.String("patch", string(document)), slog.String("by", by))
		s.audit(d.moves(), by)
	}
	return before, after, nil
}
