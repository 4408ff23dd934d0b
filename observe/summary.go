package observe

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// DefaultSummaryInterval is how often a [Summary] reports when nothing else is
// set.
const DefaultSummaryInterval = 10 * time.Second

// Summary logs the refusals of gates as rates: one line per ingress and
// interval while it refuses, and one when it ceases to. It reads what the gates
// count anyway, so a refusal costs it nothing.
type Summary struct {
	// Log takes the lines, at info.
	Log *slog.Logger
	// Interval between reports; 0 = [DefaultSummaryInterval].
	Interval time.Duration
	// Gates returns the gates that exist now.
	Gates func() []StatusReader
	// Doors returns what the ingresses count of connections and of what they answer;
	// nil = invalid requests are not told.
	Doors func() map[string]ingress.Status
	// Most returns the partition of an ingress for which most was refused since the call
	// before, a client's key perhaps, and how much; it is called once per interval. nil =
	// the label that metrics carry is told.
	Most func(ingress string) (partition string, refused uint64)

	last    map[string]tally          // by ingress; of the last report
	invalid map[string]map[int]uint64 // by ingress and status; of the last report
}

// tally is what a report is the difference of.
type tally struct {
	admitted   uint64
	rejected   map[labels.Reason]uint64
	byLabel    map[string]uint64 // rejected
	inShadow   uint64
	overloaded bool // the last report said that something was refused
}

// Run reports until ctx is done. It is to be called once.
func (s *Summary) Run(ctx context.Context) {
	interval := s.Interval
	if interval <= 0 {
		interval = DefaultSummaryInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	s.last = s.read()
	s.reportInvalid(ctx, interval)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.report(ctx, interval)
			s.reportInvalid(ctx, interval)
		}
	}
}

// reportInvalid logs how many requests were answered since they cannot be forwarded, a
// line per ingress. The first call logs nothing.
func (s *Summary) reportInvalid(ctx context.Context, interval time.Duration) {
	if s.Doors == nil {
		return
	}
	before := s.invalid
	s.invalid = map[string]map[int]uint64{}
	for name, door := range s.Doors() {
		now := map[int]uint64{}
		s.invalid[name] = now
		total := 0.0
		var statuses []any
		for _, i := range door.Invalid {
			now[i.Status] = i.Count
			if n := i.Count - min(before[name][i.Status], i.Count); n > 0 {
				rate := rounded(float64(n) / interval.Seconds())
				total = rounded(total + rate)
				statuses = append(statuses, slog.Float64(i.Name(), rate))
			}
		}
		if before != nil && total > 0 {
			s.Log.LogAttrs(ctx, slog.LevelInfo, "answering invalid requests", slog.String("ingress", name),
				slog.Float64("invalid_per_second", total), slog.Group("statuses", statuses...))
		}
	}
}

// read adds up what every gate counts.
func (s *Summary) read() map[string]tally {
	now := map[string]tally{}
	for _, g := range s.Gates() {
		status := g.Page(ofConfiguration())
		now[status.Name] = newTally(&status)
	}
	return now
}

// rounded is a rate as people read it.
func rounded(perSecond float64) float64 { return math.Round(perSecond*1000) / 1000 }

func newTally(status *limiter.Status) tally {
	t := tally{rejected: map[labels.Reason]uint64{}, byLabel: map[string]uint64{}}
	add := func(c *limiter.Counts) {
		t.admitted += c.Admitted
		for reason, n := range c.Rejected {
			t.rejected[reason] += n
		}
		for _, n := range c.WouldReject {
			t.inShadow += n
		}
	}
	for i := range status.Labels {
		l := &status.Labels[i]
		add(&l.Counts)
		for _, n := range l.Counts.Rejected {
			t.byLabel[l.Label] += n
		}
	}
	return t
}

// report logs what happened since the last report. A gate that was not there
// then is reported from the next one on.
func (s *Summary) report(ctx context.Context, interval time.Duration) {
	now := s.read()
	for name, current := range now {
		if before, known := s.last[name]; known {
			current.overloaded = s.reportGate(ctx, name, interval, before, current)
			now[name] = current
		}
	}
	s.last = now
}

// reportGate logs one gate's line and reports whether it refused anything.
func (s *Summary) reportGate(ctx context.Context, name string, interval time.Duration, before, now tally) bool {
	perSecond := func(from, to uint64) float64 {
		if to < from { // the gate was replaced by another of its name
			return 0
		}
		return rounded(float64(to-from) / interval.Seconds())
	}
	var total float64
	reasons := make([]any, 0, len(labels.Reasons()))
	for _, reason := range labels.Reasons() {
		if rate := perSecond(before.rejected[reason], now.rejected[reason]); rate > 0 {
			total = rounded(total + rate)
			reasons = append(reasons, slog.Float64(string(reason), rate))
		}
	}
	key, n := "", uint64(0)
	if s.Most != nil { // also when nothing is refused: it tells of what was since the call before
		key, n = s.Most(name)
	}
	shadow := perSecond(before.inShadow, now.inShadow)
	if total == 0 && shadow == 0 {
		if before.overloaded {
			s.Log.LogAttrs(ctx, slog.LevelInfo, "no more rejections", slog.String("ingress", name))
		}
		return false
	}
	worst, most := "", 0.0
	for label, n := range now.byLabel {
		if rate := perSecond(before.byLabel[label], n); rate > most || rate == most && label < worst {
			worst, most = label, rate
		}
	}
	if n > 0 {
		worst, most = key, min(rounded(float64(n)/interval.Seconds()), total) // it is read a moment apart
	}
	attrs := []slog.Attr{
		slog.String("ingress", name),
		slog.Float64("rejected_per_second", total),
		slog.Float64("admitted_per_second", perSecond(before.admitted, now.admitted)),
		slog.Group("reasons", reasons...),
	}
	if most > 0 {
		attrs = append(attrs, slog.String("most_rejected_partition", worst), slog.Float64("most_rejected_per_second", most))
	}
	if shadow > 0 {
		attrs = append(attrs, slog.Float64("would_reject_per_second", shadow))
	}
	s.Log.LogAttrs(ctx, slog.LevelInfo, "rejecting requests", attrs...)
	return true
}
