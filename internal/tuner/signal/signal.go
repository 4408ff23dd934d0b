package signal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Bounds of what a signal keeps and tolerates.
const (
	maxReadings  = 512 // kept per signal, whatever the window
	spikeWindow  = 5   // readings that a median needs to call another one a spike
	spikesInARow = 3   // readings that agree with each other are a new level
	resetsMost   = 2   // times that a counter may fall within a window; a process restarts now and then
)

// Options say what a signal is. The zero value keeps the last reading for 30
// seconds and believes every finite number.
type Options struct {
	// Window over which readings are summed up; 0 = the last reading alone.
	Window time.Duration
	// Quantile of the window, in (0, 1]; 0 = the average.
	Quantile float64
	// Rate makes the value the growth of the readings per second, which are
	// then those of a counter.
	Rate bool
	// MaxAge is how old the newest reading may be; 0 = 30 s.
	MaxAge time.Duration
	// Min and Max bound what can be read; both 0 = no bounds.
	Min, Max float64
	// StuckFor is how long the reading may stay the same, unless it is Min or
	// Max; 0 = for ever.
	StuckFor time.Duration
	// Spike is how many times larger or smaller than the median of the window
	// a reading may be before it waits for others to confirm it; 0 = 10,
	// negative = any.
	Spike float64
}

func (o Options) withDefaults() Options {
	if o.MaxAge <= 0 {
		o.MaxAge = 30 * time.Second
	}
	if o.Spike == 0 {
		o.Spike = 10
	}
	return o
}

// Validate reports every option out of range.
func (o Options) Validate() error {
	var errs []error
	if o.Quantile < 0 || o.Quantile > 1 || math.IsNaN(o.Quantile) {
		errs = append(errs, fmt.Errorf("signal: quantile must be in (0, 1] (%v)", o.Quantile))
	}
	if o.Window < 0 || o.MaxAge < 0 || o.StuckFor < 0 {
		errs = append(errs, errors.New("signal: window, maxAge and stuckFor must not be negative"))
	}
	if o.Min > o.Max || math.IsNaN(o.Min) || math.IsNaN(o.Max) {
		errs = append(errs, fmt.Errorf("signal: min must be at most max (%v, %v)", o.Min, o.Max))
	}
	return errors.Join(errs...)
}

// reading is one number and when it was true, in monotonic nanoseconds.
type reading struct {
	at int64
	v  float64
}

// Signal sums up readings. The zero value is not usable; see [New]. It is not
// safe for concurrent use.
type Signal struct {
	o        Options
	kept     []reading // in the order of time
	doubtful []reading // jumped, and wait for others to confirm them
	resets   []int64   // when a counter fell
	changed  int64     // when the last reading differed from the one before
	last     float64   // the last reading as it came
	heard    bool      // last and changed mean something

	failure   Distrust // of the last attempt; Trusted after a good one
	detail    string
	failures  int
	discarded uint64
}

// New returns a signal that has read nothing yet.
func New(o Options) *Signal { return &Signal{o: o.withDefaults()} }

// Add takes a reading that was true at the time at, which is not after now.
// Readings older than the newest one are dropped, and held against the source.
func (s *Signal) Add(now, at int64, v float64) {
	at = min(at, now)
	if d := s.unfit(v); d != Trusted {
		s.fail(d, fmt.Sprintf("read %v", v))
		return
	}
	if n := len(s.kept); n > 0 && at < s.kept[n-1].at {
		s.fail(Backwards, "a reading is older than the one before it")
		return
	}
	if !s.heard || v != s.last {
		s.changed = now
	}
	fell := s.o.Rate && s.heard && v < s.last
	s.last, s.heard = v, true
	s.failure, s.detail, s.failures = Trusted, "", 0
	switch {
	case fell: // a counter begins anew: the growth across the reset is unknown
		s.resets = append(s.resets, now)
		s.kept, s.doubtful = s.kept[:0], s.doubtful[:0]
		s.kept = append(s.kept, reading{at, v})
	case !s.o.Rate && s.jumps(v):
		s.doubt(reading{at, v})
	default:
		s.doubtful = s.doubtful[:0]
		s.kept = append(s.kept, reading{at, v})
	}
	s.prune(now)
}

// Fail takes note that nothing could be read. A source that did not answer
// before its deadline is slow.
func (s *Signal) Fail(err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		s.fail(Slow, err.Error())
		return
	}
	s.fail(Failing, err.Error())
}

// Reset forgets every reading, for when time itself was not to be trusted.
func (s *Signal) Reset() { *s = Signal{o: s.o, discarded: s.discarded} }

// Discarded counts the readings that were set aside, as they did not fit.
func (s *Signal) Discarded() uint64 { return s.discarded }

// Value sums up what is known now.
func (s *Signal) Value(now int64) Value {
	s.prune(now)
	out := Value{Detail: s.detail}
	if len(s.kept) == 0 {
		out.Distrust = Never
		if s.failure != Trusted {
			out.Distrust = s.failure
		}
		return out
	}
	newest := s.kept[len(s.kept)-1]
	out.Age = time.Duration(now - newest.at)
	var enough bool
	out.Value, enough = s.summary(now)
	out.Distrust = s.judge(now, out.Age, enough)
	return out
}

// judge names the first reason not to act upon the readings.
func (s *Signal) judge(now int64, age time.Duration, enough bool) Distrust {
	switch {
	case s.failure == NaN, s.failure == Range, s.failure == Backwards:
		return s.failure // one answer that cannot be true is one too many
	case age > s.o.MaxAge && s.failure != Trusted:
		return s.failure
	case age > s.o.MaxAge:
		return Stale
	case s.failures >= 3:
		return s.failure // young readings, and a source that has begun to fail
	case len(s.resets) > resetsMost:
		return Backwards
	case s.o.StuckFor > 0 && time.Duration(now-s.changed) >= s.o.StuckFor && !s.saturated():
		return Stuck
	case len(s.doubtful) > 0:
		return Spike
	case !enough:
		return Never
	}
	return Trusted
}

// saturated reports whether the last reading lies at the bound of what can be,
// where things do stand still: a busy machine is busy to 100 %.
func (s *Signal) saturated() bool {
	return (s.o.Min != 0 || s.o.Max != 0) && (s.last == s.o.Min || s.last == s.o.Max)
}

// unfit says why a number cannot be a reading.
func (s *Signal) unfit(v float64) Distrust {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return NaN
	case (s.o.Min != 0 || s.o.Max != 0) && (v < s.o.Min || v > s.o.Max):
		return Range
	case s.o.Rate && v < 0:
		return Range
	}
	return Trusted
}

func (s *Signal) fail(d Distrust, detail string) {
	s.failure, s.detail = d, detail
	s.failures++
	s.discarded++
}

// jumps reports whether v lies further from the median of the window than the
// options allow. A median of zero says nothing: anything is far from it.
func (s *Signal) jumps(v float64) bool {
	if s.o.Spike < 0 || len(s.kept) < spikeWindow {
		return false
	}
	m := quantile(values(s.kept), 0.5)
	if m == 0 {
		return false
	}
	ratio := v / m
	return ratio > s.o.Spike || ratio < 1/s.o.Spike
}

// doubt keeps a reading aside. Several in a row are the truth: the level has
// changed, and what was read before says nothing any more.
func (s *Signal) doubt(r reading) {
	s.doubtful = append(s.doubtful, r)
	s.discarded++
	if len(s.doubtful) < spikesInARow {
		return
	}
	s.kept = append(s.kept[:0], s.doubtful...)
	s.discarded -= uint64(len(s.doubtful))
	s.doubtful = s.doubtful[:0]
}

// prune drops what lies before the window, but for the newest reading, and
// bounds what is kept.
func (s *Signal) prune(now int64) {
	keep := int64(max(s.o.Window, 0))
	if s.o.Rate || s.o.Spike > 0 { // both compare with what came before
		keep = max(keep, int64(s.o.MaxAge))
	}
	from := 0
	for from < len(s.kept)-1 && (now-s.kept[from].at > keep || len(s.kept)-from > maxReadings) {
		from++
	}
	s.kept = slices.Delete(s.kept, 0, from)
	gone := 0
	for gone < len(s.resets) && now-s.resets[gone] > keep {
		gone++
	}
	s.resets = slices.Delete(s.resets, 0, gone)
}

// summary is the value of the window; false while there is too little of it.
func (s *Signal) summary(now int64) (float64, bool) {
	in := s.kept
	for len(in) > 1 && now-in[0].at > int64(s.o.Window) && (!s.o.Rate || len(in) > 2) {
		in = in[1:]
	}
	if s.o.Rate {
		first, last := in[0], in[len(in)-1]
		if last.at <= first.at {
			return 0, false
		}
		return (last.v - first.v) / (float64(last.at-first.at) / float64(time.Second)), true
	}
	if s.o.Window == 0 {
		return in[len(in)-1].v, true
	}
	v := values(in)
	if s.o.Quantile > 0 {
		return quantile(v, s.o.Quantile), true
	}
	sum := 0.0
	for _, x := range v {
		sum += x / float64(len(v)) // divided first: a sum of the largest numbers is infinite
	}
	return sum, true
}

func values(rs []reading) []float64 {
	v := make([]float64, len(rs))
	for i, r := range rs {
		v[i] = r.v
	}
	return v
}

// quantile is the nearest rank; v is sorted by it.
func quantile(v []float64, q float64) float64 {
	slices.Sort(v)
	i := int(math.Ceil(q*float64(len(v)))) - 1
	return v[min(max(i, 0), len(v)-1)]
}
