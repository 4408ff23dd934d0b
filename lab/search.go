package lab

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"
)

// gridStep is the factor between the limits that are tried first.
const gridStep = 1.3

// finest is how many limits between two of the grid are tried.
const finest = 6

// ceilingSeeds is how many seeds each limit is tried with.
const ceilingSeeds = 2

// search looks for the best fixed limit of each window.
type search struct {
	s     *Scenario
	tried map[int][]Ceiling // by limit; one for each window
}

// findCeilings returns the ceilings of one variant.
func findCeilings(ctx context.Context, s *Scenario) (map[string]Ceiling, error) {
	r := search{s: s, tried: map[int][]Ceiling{}}
	grid := s.limitsToTry()
	if err := r.try(ctx, grid); err != nil {
		return nil, err
	}
	out := map[string]Ceiling{}
	for i, w := range s.Windows {
		at := slices.Index(grid, r.best(i).Limit)
		from, to := grid[max(at-1, 0)], grid[min(at+1, len(grid)-1)]
		var between []int
		for n := range finest {
			between = append(between, from+(to-from)*(n+1)/(finest+1))
		}
		if err := r.try(ctx, between); err != nil {
			return nil, err
		}
		out[w.Name] = r.best(i)
	}
	return out, nil
}

// limitsToTry returns the grid: from half of what keeps the backend busy to
// what keeps an answer waiting for the objective.
func (s *Scenario) limitsToTry() []int {
	healthy, best, delay, speed := s.Backend.healthy(), s.Backend.Capacity(), Duration(0), 1.0
	for _, step := range s.healthSteps() {
		h := step.health(&s.Backend)
		h.frozen = false
		best, delay, speed = max(best, s.Backend.capacity(h)), max(delay, step.Delay), max(speed, h.speed)
	}
	service := s.Backend.Service.mean(healthy.share).Seconds()
	least := s.Backend.Capacity() * service / speed / 2
	most := best * (service + time.Duration(s.Objective+delay).Seconds())
	var list []int
	for x := max(least, 1); x < most*gridStep; x *= gridStep {
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
		found := make([]Ceiling, len(r.s.Windows))
		for seed := range uint64(ceilingSeeds) {
			if err := ctx.Err(); err != nil {
				return err
			}
			result, err := Play(r.s, Fixed(r.s, "ceiling", limit), seed+1, PlayOptions{})
			if err != nil {
				return err
			}
			for i := range found {
				w := &result.Windows[i]
				found[i].Limit = limit
				found[i].Good += float64(w.Good) / w.Seconds / ceilingSeeds
				found[i].Refused += float64(w.Refused) / float64(max(w.Offered, 1)) / ceilingSeeds
			}
		}
		r.tried[limit] = found
	}
	return nil
}

// best returns the best of what was tried, the lower limit of equals.
func (r *search) best(window int) Ceiling {
	var best Ceiling
	for _, limit := range slices.Sorted(maps.Keys(r.tried)) {
		if c := r.tried[limit][window]; c.Good > best.Good || best.Limit == 0 {
			best = c
		}
	}
	best.Good, best.Refused = math.Round(best.Good*1e4)/1e4, math.Round(best.Refused*1e5)/1e5
	return best
}
