package source

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Scrape reads one metric from a Prometheus text endpoint. Several series that
// match are summed.
type Scrape struct {
	*Endpoint // may be shared with others of its kind

	Metric string
	// Labels that a series must have; others may be anything.
	Labels map[string]string
	// Quantile of a classic histogram, in (0, 1), over what was observed since
	// the reading before; 0 = Metric is a gauge or a counter.
	Quantile float64

	before map[float64]float64 // cumulative counts by upper bound
	answer outcome
	sum    series // of the last answer
}

// series are the samples of one answer that match, summed up.
type series struct {
	found   int
	sum     float64
	oldest  time.Time           // when the oldest sample was true; zero = none says so
	buckets map[float64]float64 // by upper bound
	err     error               // of a sample that cannot be read
}

const textFormats = "text/plain;version=0.0.4, application/openmetrics-text;q=0.5, */*;q=0.1"

// Read returns the metric's value, and when it was true: samples may carry a time,
// of which the oldest counts. The first reading of a quantile has nothing to
// compare with, and fails.
func (s *Scrape) Read(ctx context.Context) (float64, time.Time, error) {
	return s.Endpoint.read(ctx, s, textFormats, s.value)
}

func (s *Scrape) last() *outcome { return &s.answer }

// take implements part.
func (s *Scrape) take(parts []part, answer io.Reader, header http.Header) error {
	unit := time.Millisecond
	if strings.HasPrefix(header.Get("Content-Type"), "application/openmetrics-text") {
		unit = time.Second
	}
	wanted := map[string][]*Scrape{}
	for _, p := range parts {
		if s, ok := p.(*Scrape); ok {
			s.sum = series{}
			wanted[s.series()] = append(wanted[s.series()], s)
		}
	}
	return readText(answer, unit, wanted)
}

// series is the name of the samples that are read.
func (s *Scrape) series() string {
	if s.Quantile > 0 {
		return s.Metric + "_bucket"
	}
	return s.Metric
}

// value is what came of the last answer, which was asked for at that time.
func (s *Scrape) value(at time.Time) (float64, time.Time, error) {
	got := &s.sum
	if got.err != nil {
		return 0, time.Time{}, got.err
	}
	if got.found == 0 {
		return 0, time.Time{}, fmt.Errorf("%w: metric %s", ErrAbsent, s.series())
	}
	if !got.oldest.IsZero() && got.oldest.Before(at) {
		at = got.oldest
	}
	if s.Quantile > 0 {
		before := s.before
		s.before = got.buckets
		v, err := quantile(before, got.buckets, s.Quantile)
		return v, at, err
	}
	return got.sum, at, nil
}

// add takes a sample of the metric.
func (s *Scrape) add(m *sample) {
	if !m.matches(s.Labels) {
		return
	}
	got := &s.sum
	got.found++
	got.sum += m.value
	if !m.at.IsZero() && (got.oldest.IsZero() || m.at.Before(got.oldest)) {
		got.oldest = m.at
	}
	if s.Quantile > 0 && m.hasBound {
		if got.buckets == nil {
			got.buckets = map[float64]float64{}
		}
		if _, known := got.buckets[m.bound]; known || len(got.buckets) < maxBuckets {
			got.buckets[m.bound] += m.value
		}
	}
}

// maxBuckets bounds the buckets of a histogram.
const maxBuckets = 1000

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
