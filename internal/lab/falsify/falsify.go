package falsify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// searchSeed is the seed of the runs of a search. What a search has found is
// played again with the seeds from 1 on, which `admitd lab run` plays too.
const searchSeed = 1001

// leastCeiling is what the best fixed limit must answer in time for a scenario to
// count, as a share of the capacity: what nothing saves proves nothing.
const leastCeiling = 0.2

// verifySeeds is how many seeds a find is played with.
const verifySeeds = 3

// Search says what is searched. The zero value searches nothing.
type Search struct {
	// Seed of the search; equal seeds have equal rounds.
	Seed uint64
	// Rounds that are made; 0 = until For is over.
	Rounds int
	// For is how long rounds are made, in real time; 0 = until Rounds are made. What
	// the rounds have found is verified after that.
	For time.Duration
	// Drawn points of a round, and Moved ones; 0 = 8 and 24.
	Drawn, Moved int
	// Kept finds of each kind; 0 = 10.
	Kept int
	// Workers that search at a time; 0 = 2.
	Workers int
}

// Find is one scenario in which the default does badly.
type Find struct {
	Kind  Kind   `json:"kind"`
	Name  string `json:"name"` // of the scenario
	Seed  uint64 `json:"seed"` // of the search
	Round int    `json:"round"`
	// Share of the answers in time of the best fixed limit that the default has.
	Share float64 `json:"share"`
	// FalseRefused is the share of the requests that the default refuses while the
	// backend could serve all.
	FalseRefused float64 `json:"falseRefused"`
	// Goodput of the default, and of the best fixed limit, as shares of the capacity
	// of the healthy backend.
	Goodput float64 `json:"goodput"`
	Ceiling float64 `json:"ceiling"`
	// Limit that is the best fixed one, and the mean of the default's.
	Limit       int     `json:"limit"`
	DefaultMean float64 `json:"defaultLimit"`
	// FixedRefused is the share of the requests that the best fixed limit refuses.
	FixedRefused float64 `json:"fixedRefused"`
	// Scenario is the file.
	Scenario string `json:"scenario"`

	point Point
}

// badness is what is searched for, larger = worse.
func (f *Find) badness() float64 {
	if f.Kind == Goodput {
		if f.Ceiling < leastCeiling {
			return -1
		}
		return 1 - f.Share
	}
	return f.FalseRefused - f.FixedRefused
}

// Report is what a search has found.
type Report struct {
	Seed   uint64 `json:"seed"`
	Rounds int    `json:"rounds"`
	// Scenarios that were played.
	Scenarios int `json:"scenarios"`
	// Goodput and FalseRefused are the worst finds, worst first.
	Goodput      []Find `json:"goodput"`
	FalseRefused []Find `json:"falseRefused"`
}

// Run searches. It ends early, with what was found, when For is over, and with an
// error when ctx is.
func (s *Search) Run(ctx context.Context) (*Report, error) {
	if s.Rounds <= 0 && s.For <= 0 {
		return nil, errors.New("lab: a search needs rounds or a time")
	}
	searching := ctx
	if s.For > 0 {
		var cancel context.CancelFunc
		searching, cancel = context.WithTimeout(ctx, s.For)
		defer cancel()
	}
	rep := &Report{Seed: s.Seed}
	var mu sync.Mutex // guards rep and found
	var found []Find
	var next atomic.Int64
	var group errgroup.Group
	for range or(s.Workers, 2) {
		group.Go(func() error {
			for searching.Err() == nil {
				n := int(next.Add(1)) - 1
				if s.Rounds > 0 && n >= s.Rounds {
					return nil
				}
				f, played, err := s.round(searching, n)
				if err != nil {
					return err
				}
				mu.Lock()
				rep.Scenarios += played
				if rep.Rounds = max(rep.Rounds, n+1); f != nil {
					found = append(found, *f)
				}
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var err error
	if rep.Goodput, err = s.verify(ctx, found, Goodput); err != nil {
		return nil, err
	}
	rep.FalseRefused, err = s.verify(ctx, found, FalseRefused)
	return rep, err
}

// or returns n, or its default.
func or(n, def int) int {
	if n > 0 {
		return n
	}
	return def
}

// round makes one round: every third looks for false refusals. When its time is
// over it returns the worst that it has seen; nil = nothing bad.
func (s *Search) round(ctx context.Context, n int) (worst *Find, played int, err error) {
	r := rand.New(rand.NewPCG(s.Seed, uint64(n))) //nolint:gosec // a search wants reproducible numbers
	kind := Goodput
	if n%3 == 2 {
		kind = FalseRefused
	}
	drawn := or(s.Drawn, 8)
	for i := range drawn + or(s.Moved, 24) {
		p := Draw(r)
		if i >= drawn && worst != nil {
			p = worst.point.Move(r)
		}
		f := &Find{Kind: kind, Seed: s.Seed, Round: n, point: p}
		bound := 0.0
		if worst != nil {
			bound = worst.badness()
		}
		worse, err := f.look(ctx, bound)
		if ctx.Err() != nil {
			return worst, played, nil //nolint:nilerr // the time is over
		}
		if err != nil {
			return nil, played, err
		}
		played++
		if worse {
			worst = f
		}
	}
	return worst, played, nil
}

// parse reads the scenario of a find.
func (f *Find) parse() (*scenario.Scenario, error) {
	f.Name = fmt.Sprintf("%s-%d-%d", strings.ToLower(string(f.Kind)), f.Seed, f.Round)
	f.Scenario = f.point.Text(f.Kind, f.Name, f.about())
	s, err := scenario.Parse([]byte(f.Scenario))
	if err != nil {
		return nil, fmt.Errorf("lab: a scenario of the search is not valid: %w\n%s", err, f.Scenario)
	}
	run, _ := s.Variant("default")
	return run, nil
}

// about says how a find was found.
func (f *Find) about() string {
	return fmt.Sprintf("Found by 'admitd lab falsify --seed %d', round %d.", f.Seed, f.Round)
}

// look plays a point once and reports whether it is worse than the bound. What
// cannot be worse whatever the best fixed limit does is not compared with it.
func (f *Find) look(ctx context.Context, bound float64) (worse bool, err error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	run, err := f.parse()
	if err != nil {
		return false, err
	}
	possible, err := f.play(run, searchSeed, 1)
	if err != nil {
		return false, err
	}
	f.FixedRefused = 0
	switch {
	case f.Kind == FalseRefused && f.FalseRefused <= bound:
		return false, nil
	case f.Kind == Goodput && 1-f.Goodput/possible <= bound:
		return false, nil
	}
	c, err := lab.EstimateCeiling(ctx, run, searchSeed)
	if err != nil {
		return false, err
	}
	f.compare(run, c)
	return f.badness() > bound, nil
}

// play plays the default with some seeds and returns the most that any limit could
// answer, as a share of the capacity.
func (f *Find) play(run *scenario.Scenario, first, seeds uint64) (possible float64, err error) {
	c, err := byDefault(run)
	if err != nil {
		return 0, err
	}
	f.Goodput, f.FalseRefused, f.DefaultMean = 0, 0, 0
	most := 1.0
	for _, h := range run.HealthSteps() {
		most = max(most, run.Backend.CapacityIn(h.State(&run.Backend))/run.Backend.Capacity())
	}
	for seed := range seeds {
		r, err := lab.Play(run, c, first+seed, lab.PlayOptions{})
		if err != nil {
			return 0, err
		}
		w := &r.Windows[0]
		f.Goodput += float64(w.Good) / w.Seconds / w.Capacity / float64(seeds)
		f.FalseRefused += float64(w.FalseRefused) / float64(max(w.Offered, 1)) / float64(seeds)
		f.DefaultMean += w.Limit / float64(seeds)
		possible += float64(w.Offered) / w.Seconds / w.Capacity / float64(seeds)
	}
	return max(min(possible, most), 1e-9), nil
}

// byDefault returns the default limit as a contender.
func byDefault(s *scenario.Scenario) (lab.Contender, error) {
	list := lab.Contenders(s)
	i := slices.IndexFunc(list, func(c lab.Contender) bool { return c.Name == scenario.Queued })
	if i < 0 {
		return lab.Contender{}, errors.New("lab: no contender is the default")
	}
	return list[i], nil
}

// compare notes what the best fixed limit does.
func (f *Find) compare(run *scenario.Scenario, c scenario.Ceiling) {
	f.Ceiling, f.Limit, f.FixedRefused = c.Good/run.Backend.Capacity(), c.Limit, c.Refused
	f.Share = f.Goodput / max(f.Ceiling, 1e-9)
}

// verify plays the finds of one kind with seeds that the search has not used,
// against the best of all fixed limits, and returns the worst of them, worst first.
func (s *Search) verify(ctx context.Context, found []Find, kind Kind) ([]Find, error) {
	of := slices.DeleteFunc(slices.Clone(found), func(f Find) bool { return f.Kind != kind })
	worstFirst := func(a, b Find) int {
		return cmp.Or(cmp.Compare(b.badness(), a.badness()), cmp.Compare(a.Round, b.Round))
	}
	slices.SortFunc(of, worstFirst)
	of = of[:min(len(of), or(s.Kept, 10)*3/2)] // chance has made some look worse than they are
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(or(s.Workers, 2))
	for i := range of {
		group.Go(func() error { return of[i].verify(ctx) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	of = slices.DeleteFunc(of, func(f Find) bool { return f.badness() <= 0 })
	slices.SortFunc(of, worstFirst)
	return of[:min(len(of), or(s.Kept, 10))], nil
}

// verify plays a find with other seeds and completes its file.
func (f *Find) verify(ctx context.Context) error {
	run, err := f.parse()
	if err != nil {
		return err
	}
	if _, err := f.play(run, 1, verifySeeds); err != nil {
		return err
	}
	c, err := lab.BestFixed(ctx, run)
	if err != nil {
		return err
	}
	f.compare(run, c)
	// Played again, the file fails as long as the default does as badly.
	if f.Kind == Goodput {
		f.Scenario += fmt.Sprintf("pass: [{ measure: goodput, atLeast: %s, why: \"0.85 of the best fixed limit, %d\" }]\n", number(0.85*f.Ceiling), f.Limit)
	} else {
		f.Scenario += fmt.Sprintf("pass: [{ measure: falseRefused, atMost: %s, why: \"what the best fixed limit refuses, %d, and a little\" }]\n", number(f.FixedRefused+0.002), f.Limit)
	}
	return nil
}
