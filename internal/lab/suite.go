package lab

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// Suite says which runs are made. The zero value is every shipped scenario with
// every variant, contender and seed.
type Suite struct {
	Scenarios []*scenario.Scenario
	// Variants and Contenders that are run; none = all. A variant of a sweep may
	// be named by some of the names that it is combined from.
	Variants, Contenders []string
	// Full also plays the variants that are marked so; those that Variants names
	// are played in any case.
	Full bool
	// More contenders, such as a candidate configuration.
	More []Contender
	// Seeds of each; 0 = what the scenario says. FirstSeed is the first; 0 = 1.
	Seeds     int
	FirstSeed uint64
	// Workers that run at a time; 0 = one per processor.
	Workers int
	// Progress is called after each run, by one goroutine at a time; nil =
	// nobody.
	Progress func(done, of int)
}

// task is one run.
type task struct {
	s    *scenario.Scenario
	c    Contender
	seed uint64
}

// Run plays the suite. The results are in the order of the scenarios, variants,
// contenders and seeds, whatever ran first; the series of all seeds but the
// first are left out.
func (s *Suite) Run(ctx context.Context) ([]*measure.Result, error) {
	tasks, err := s.tasks()
	if err != nil {
		return nil, err
	}
	results := make([]*measure.Result, len(tasks))
	workers := s.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var mu sync.Mutex // guards finished, and calls of Progress
	finished := 0
	finish := func() {
		mu.Lock()
		defer mu.Unlock()
		finished++
		if s.Progress != nil {
			s.Progress(finished, len(tasks))
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i, t := range tasks {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r, err := s.play(t)
			if err != nil {
				return err
			}
			results[i] = r
			finish()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return results, nil
}

// play plays one task.
func (s *Suite) play(t task) (*measure.Result, error) {
	r, err := Play(t.s, t.c, t.seed, PlayOptions{})
	if err == nil && t.seed != s.first() {
		r.Series = nil
	}
	return r, err
}

// first returns the first seed.
func (s *Suite) first() uint64 { return max(s.FirstSeed, 1) }

// tasks lists the runs.
func (s *Suite) tasks() ([]task, error) {
	var tasks []task
	for _, sc := range s.Scenarios {
		for i := range sc.Variants {
			run := sc.Apply(&sc.Variants[i])
			if s.plays(&sc.Variants[i], run) {
				tasks = s.runs(tasks, run)
			}
		}
	}
	if len(tasks) == 0 {
		return nil, fmt.Errorf("lab: nothing to run: no variant of %v or contender of %v is known", s.Variants, s.Contenders)
	}
	for _, name := range s.Contenders {
		if !slices.ContainsFunc(tasks, func(t task) bool { return t.c.Name == name }) {
			return nil, fmt.Errorf("lab: no contender of %v is known as %s", s.Contenders, name)
		}
	}
	for _, name := range s.Variants {
		if !slices.ContainsFunc(tasks, func(t task) bool { return t.s.Variants[0].Named(name) }) {
			return nil, fmt.Errorf("lab: no variant of %v is known as %s", s.Variants, name)
		}
	}
	return tasks, nil
}

// plays reports whether a variant is to be run.
func (s *Suite) plays(v *scenario.Variant, run *scenario.Scenario) bool {
	if len(s.Variants) == 0 {
		return s.Full || !run.Full
	}
	return slices.ContainsFunc(s.Variants, v.Named)
}

// runs appends the runs of one variant.
func (s *Suite) runs(tasks []task, run *scenario.Scenario) []task {
	seeds := s.Seeds
	if seeds <= 0 {
		seeds = run.Seeds
	}
	for _, c := range append(Contenders(run), s.More...) {
		if !wanted(s.Contenders, c.Name) {
			continue
		}
		for n := range uint64(seeds) {
			tasks = append(tasks, task{s: run, c: c, seed: s.first() + n})
		}
	}
	return tasks
}

// wanted reports whether a name was chosen; none chosen = all.
func wanted(chosen []string, name string) bool {
	return len(chosen) == 0 || slices.Contains(chosen, name)
}
