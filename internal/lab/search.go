package lab

import (
	"context"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/admitd/admitd/internal/lab/scenario"
)

// gridStep is the factor between the limits that are tried first.
const gridStep = 1.3

// finest is how many limits between two of the grid are tried.
const finest = 6

// ceilingSeeds is how many seeds each limit is tried with.
const ceilingSeeds = 2

// search looks for the best fixed limit of each window.
type search struct {
	s     *scenario.Scenario
	step  float64                    // between the limits that are tried first, > 1
	fine  int                        // limits that are tried between two of those
	seeds uint64                     // that each limit is tried with
	first uint64                     // seed
	tried map[int][]scenario.Ceiling // by limit; one for each window
}

// findCeilings returns the ceilings of one variant.
func findCeilings(ctx context.Context, s *scenario.Scenario) (map[string]scenario.Ceiling, error) {
	r := search{s: s, step: gridStep, fine: finest, seeds: ceilingSeeds, first: 1}
	return r.find(ctx)
}

// EstimateCeiling returns about what the best fixed limit does in the first window
// of the only variant of s, from one seed and few limits. But for chance it is at
// most the ceiling, at about a quarter of the cost.
func EstimateCeiling(ctx context.Context, s *scenario.Scenario, seed uint64) (scenario.Ceiling, error) {
	r := search{s: s, step: 2, fine: 2, seeds: 1, first: seed}
	found, err := r.find(ctx)
	return found[s.Windows[0].Name], err
}

// BestFixed returns what the best fixed limit does in the first window of the only
// variant of s.
func BestFixed(ctx context.Context, s *scenario.Scenario) (scenario.Ceiling, error) {
	found, err := findCeilings(ctx, s)
	return found[s.Windows[0].Name], err
}

// find returns the best of each window.
func (r *search) find(ctx context.Context) (map[string]scenario.Ceiling, error) {
	r.tried = map[int][]scenario.Ceiling{}
	s := r.s
	grid := limitsToTry(s, r.step)
	if err := r.try(ctx, grid); err != nil {
		return nil, err
	}
	out := map[string]scenario.Ceiling{}
	for i, w := range s.Windows {
		at := slices.Index(grid, r.best(i).Limit)
		from, to := grid[max(at-1, 0)], grid[min(at+1, len(grid)-1)]
		var between []int
		for n := range r.fine {
			between = append(between, from+(to-from)*(n+1)/(r.fine+1))
		}
		if err := r.try(ctx, between); err != nil {
			return nil, err
		}
		out[w.Name] = r.best(i)
	}
	return out, nil
}

// limitsToTry returns the grid, with that factor between its limits: from half of
// what keeps the backend busy to what keeps an answer waiting for the objective.
func limitsToTry(s *scenario.Scenario, factor float64) []int {
	healthy, best, delay, speed := s.Backend.Healthy(), s.Backend.Capacity(), scenario.Duration(0), 1.0
	for _, step := range s.HealthSteps() {
		h := step.State(&s.Backend)
		h.Frozen = false
		best, delay, speed = max(best, s.Backend.CapacityIn(h)), max(delay, step.Delay), max(speed, h.Speed)
	}
	service := s.Backend.Service.MeanAt(healthy.Share).Seconds()
	least := s.Backend.Capacity() * service / speed / 2
	most := best * (service + time.Duration(s.Objective+delay).Seconds())
	var list []int
	for x := max(least, 1); x < most*factor; x *= factor {
		// Every gate has at least one permit.
		list = append(list, max(int(math.Round(x))/s.Gates, 1)*s.Gates)
	}
	return slices.Compact(list)
}

// try plays limits that were not played yet.
func (r *search) try(ctx context.Context, limits []int) error {
	for _, limit := range limits {
		limit = max(limit/r.s.Gates, 1) * r.s.Gates
		if r.tried[limit] != nil {
			continue
		}
		found := make([]scenario.Ceiling, len(r.s.Windows))
		for seed := range r.seeds {
			if err := ctx.Err(); err != nil {
				return err
			}
			result, err := Play(r.s, Fixed(r.s, "ceiling", limit), r.first+seed, PlayOptions{})
			if err != nil {
				return err
			}
			for i := range found {
				w := &result.Windows[i]
				found[i].Limit = limit
				found[i].Good += float64(w.Good) / w.Seconds / float64(r.seeds)
				found[i].Refused += float64(w.Refused) / float64(max(w.Offered, 1)) / float64(r.seeds)
			}
		}
		r.tried[limit] = found
	}
	return nil
}

// best returns the best of what was tried, the lower limit of equals.
func (r *search) best(window int) scenario.Ceiling {
	var best scenario.Ceiling
	for _, limit := range slices.Sorted(maps.Keys(r.tried)) {
		if c := r.tried[limit][window]; c.Good > best.Good || best.Limit == 0 {
			best = c
		}
	}
	best.Good, best.Refused = math.Round(best.Good*1e4)/1e4, math.Round(best.Refused*1e5)/1e5
	return best
}

// RefreshCeilings returns c with the ceilings of all given scenarios: those that are
// missing or stale are computed, the others kept, those of other scenarios too.
// Only the variants that suite plays are computed. Its Progress is called after
// each of them.
func RefreshCeilings(ctx context.Context, c scenario.Ceilings, suite *Suite) (scenario.Ceilings, error) {
	out := maps.Clone(c)
	var stale []*scenario.Scenario
	for _, s := range suite.Scenarios {
		out[s.Name] = map[string]scenario.VariantCeilings{}
		for i := range s.Variants {
			run, name := s.Apply(&s.Variants[i]), s.Variants[i].Name
			if known := c[s.Name][name]; known.Of == run.Identity() {
				out[s.Name][name] = known
			} else if run.HasCeiling() && suite.plays(&s.Variants[i], run) {
				stale = append(stale, run)
			}
		}
	}
	var mu sync.Mutex // guards out and done
	done := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, run := range stale {
		group.Go(func() error {
			found, err := findCeilings(ctx, run)
			mu.Lock()
			defer mu.Unlock()
			out[run.Name][run.Variants[0].Name] = scenario.VariantCeilings{Of: run.Identity(), Windows: found}
			done++
			if suite.Progress != nil {
				suite.Progress(done, len(stale))
			}
			return err
		})
	}
	return out, group.Wait()
}
