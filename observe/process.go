package observe

import (
	"context"
	"math"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// StateWritten notes whether the state file could be written at the given time.
func (m *Metrics) StateWritten(ok bool, at time.Time) {
	p := m.process
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stateKnown, p.stateOK = true, ok
	if ok {
		p.stateAt = at
	}
}

// WatchCertificate exposes when the certificate of a listener ceases to be valid, besides
// those of the ingresses, whose doors tell. A zero time is not exposed.
func (m *Metrics) WatchCertificate(listener string, expires func() time.Time) {
	p := m.process
	p.mu.Lock()
	defer p.mu.Unlock()
	p.certificates[listener] = expires
}

// Delay returns the 99th percentile of the time for which work that was ready waited for a
// processor, since the call before the last ten; 0 = unknown. It is the longer of two: what
// goroutines that could run waited, as the runtime counts, and by how much timers were late
// as [Metrics.WatchDelay] sees, since nothing is counted while the whole process stands
// still, as one does whose control group has used up its quota. It is to be called once a
// second, by one goroutine.
func (m *Metrics) Delay() time.Duration { return m.process.delays.take() }

// WatchDelay sees how late timers are, until ctx is done.
func (m *Metrics) WatchDelay(ctx context.Context) error {
	timer := time.NewTimer(lateEvery)
	defer timer.Stop()
	for {
		due := time.Now().Add(lateEvery)
		timer.Reset(lateEvery)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		m.process.delays.late(time.Since(due))
	}
}

// processMetrics collects what concerns the process.
type processMetrics struct {
	delay, written, writtenAt, expiry family
	delays                            delays

	mu           sync.Mutex // guards the fields below
	stateKnown   bool       // there is a state file
	stateOK      bool
	stateAt      time.Time
	certificates map[string]func() time.Time
}

func newProcessMetrics(expiry family) *processMetrics {
	return &processMetrics{
		delay:        newGauge("scheduler_delay_seconds", "99th percentile of the time for which work that was ready waited for a processor, over ten seconds."),
		written:      newGauge("state_last_write_successful", "1 when the state file could be written the last time."),
		writtenAt:    newGauge("state_last_write_success_timestamp_seconds", "When the state file was last written, in seconds since 1970; 0 = never."),
		expiry:       expiry,
		certificates: map[string]func() time.Time{},
	}
}

// collect implements [source].
func (p *processMetrics) collect(b *builder) {
	b.add(&p.delay, p.delays.last().Seconds())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stateKnown {
		b.add(&p.written, number(p.stateOK))
		b.add(&p.writtenAt, unix(p.stateAt))
	}
	for listener, expires := range p.certificates {
		if at := expires(); !at.IsZero() {
			b.add(&p.expiry, unix(at), pair("listener", listener))
		}
	}
}

// unix is a time in seconds since 1970; 0 = never.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1e3
}

// delays reads how long goroutines that could run waited for a processor, from the
// runtime's histogram, and how late timers were. The zero value is ready. take is called by
// one goroutine, late by one, last by any.
type delays struct {
	window [][]uint64 // the counts of the last readings, the oldest first

	mu     sync.Mutex // guards the fields below
	p99    time.Duration
	timers []time.Duration // how late they were, at most lateOver of them, in a ring
	next   int             // the place in the ring for the next
}

// delaysOver is over how many readings. A timer is looked at each lateEvery, and lateOver of
// them are those of ten seconds.
const (
	delaysOver = 10
	lateEvery  = 20 * time.Millisecond
	lateOver   = int(delaysOver * time.Second / lateEvery)
)

// late takes by how much a timer was late.
func (d *delays) late(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.timers) < lateOver {
		d.timers = append(d.timers, by)
		return
	}
	d.timers[d.next] = by
	d.next = (d.next + 1) % lateOver
}

// lateness is the 99th percentile of how late timers were; 0 = too few were seen. d.mu is
// held.
func (d *delays) lateness() time.Duration {
	if len(d.timers) < lateOver/delaysOver {
		return 0
	}
	all := slices.Sorted(slices.Values(d.timers))
	return max(all[int(math.Ceil(0.99*float64(len(all))))-1], 0)
}

// take reads the histogram.
func (d *delays) take() time.Duration {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	h := sample[0].Value.Float64Histogram()
	return d.add(h.Counts, h.Buckets)
}

// add takes a reading of counts between bounds, of which there is one more.
func (d *delays) add(counts []uint64, bounds []float64) time.Duration {
	d.window = append(d.window, append([]uint64(nil), counts...))
	if len(d.window) > delaysOver+1 {
		d.window = append(d.window[:0], d.window[1:]...)
	}
	p99 := time.Duration(0)
	if first := d.window[0]; len(d.window) > 1 && len(first) == len(counts) {
		total := uint64(0)
		for i := range counts {
			total += counts[i] - first[i]
		}
		seen, rank := uint64(0), uint64(math.Ceil(0.99*float64(total)))
		for i := range counts {
			if seen += counts[i] - first[i]; total > 0 && seen >= rank {
				bound := bounds[i+1]
				if math.IsInf(bound, 1) {
					bound = bounds[i]
				}
				p99 = time.Duration(bound * float64(time.Second))
				break
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.p99 = max(p99, d.lateness())
	return d.p99
}

// last returns what the last reading came to.
func (d *delays) last() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.p99
}
