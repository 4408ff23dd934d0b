package source

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// Scrape reads one metric from a Prometheus text endpoint. Several series that
// match are summed.
type Scrape struct {
	Endpoint

	Metric string
	// Labels that a series must have; others may be anything.
	Labels map[string]string
	// Quantile of a classic histogram, in (0, 1), over what was observed since
	// the reading before; 0 = Metric is a gauge or a counter.
	Quantile float64

	before map[float64]float64 // cumulative counts by upper bound
}

const textFormats = "text/plain;version=0.0.4, application/openmetrics-text;q=0.5, */*;q=0.1"

// Read returns the metric's value. The first reading of a quantile has nothing
// to compare with, and fails.
func (s *Scrape) Read(ctx context.Context) (float64, time.Time, error) {
	text, err := s.get(ctx, textFormats, nil)
	if err != nil {
		return 0, time.Time{}, err
	}
	v, err := s.value(string(text))
	return v, time.Time{}, err
}

func (s *Scrape) value(text string) (float64, error) {
	name := s.Metric
	if s.Quantile > 0 {
		name += "_bucket"
	}
	all, err := samplesOf(text, name)
	if err != nil {
		return 0, err
	}
	found, sum, buckets := 0, 0.0, map[float64]float64{}
	for i := range all {
		if !all[i].matches(s.Labels) {
			continue
		}
		found++
		sum += all[i].value
		if le, err := strconv.ParseFloat(all[i].labels["le"], 64); err == nil && !math.IsNaN(le) {
			buckets[le] += all[i].value
		}
	}
	if found == 0 {
		return 0, fmt.Errorf("%w: metric %s", ErrAbsent, name)
	}
	if s.Quantile > 0 {
		before := s.before
		s.before = buckets
		return quantile(before, buckets, s.Quantile)
	}
	return sum, nil
}

// quantile estimates a quantile of what was observed between two readings of
// cumulative buckets, even within each bucket.
func quantile(before, after map[float64]float64, q float64) (float64, error) {
	if before == nil {
		return 0, fmt.Errorf("%w: only one reading so far", ErrAbsent)
	}
	bounds := slices.Sorted(maps.Keys(after))
	if len(bounds) == 0 || !math.IsInf(bounds[len(bounds)-1], 1) {
		return 0, fmt.Errorf("%w: no bucket without a bound", ErrForm)
	}
	grown := func(i int) float64 { return after[bounds[i]] - before[bounds[i]] }
	total := grown(len(bounds) - 1)
	if !(total > 0) {
		return 0, fmt.Errorf("%w: nothing was observed", ErrAbsent)
	}
	low, below := 0.0, 0.0
	for i, bound := range bounds {
		n := grown(i)
		if n >= q*total {
			if math.IsInf(bound, 1) || n <= below {
				return low, nil
			}
			return low + (bound-low)*(q*total-below)/(n-below), nil
		}
		low, below = bound, n
	}
	return low, nil
}
