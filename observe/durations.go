package observe

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/admitd/admitd/limiter"
)

// Native buckets grow by this factor, at most this many per series.
const (
	nativeFactor  = 1.1
	nativeBuckets = 160
	nativeReset   = time.Hour
	outcomes      = 3
	maxTraceID    = 64 // bytes of an exemplar's trace id
)

// classicBuckets are upper bounds in seconds, from what a cache answers in to
// what nobody waits for. A quantile that is read from them is at most as far from the
// truth as two neighbours are apart: a factor of 1.3 to 1.7.
var classicBuckets = []float64{ //nolint:gochecknoglobals // a constant, were slices allowed to be
	.0005, .00075, .001, .0015, .0025, .0035, .005, .0075, .01, .015, .025, .035, .05, .075,
	.1, .15, .25, .35, .5, .75, 1, 1.5, 2.5, 3.5, 5, 7.5, 10, 15, 20, 30,
}

// Gate returns the observer of one ingress's gate. Recorders are made once per
// partition label; recording one latency takes no lock and allocates nothing.
func (m *Metrics) Gate(ingress string) limiter.Observer {
	return &gateObserver{durations: m.durations, ingress: ingress}
}

// Exemplar attaches a trace to the bucket of a latency that was recorded
// already. Traces are shown to scrapers that ask for OpenMetrics. partition is
// a metric label as in [limiter.Permit.Label]; a series that has recorded
// nothing takes no exemplar. traceID is at most 64 bytes of UTF-8, longer ones
// are ignored.
func (m *Metrics) Exemplar(ingress, partition string, o limiter.Outcome, latency time.Duration, traceID string) {
	if traceID == "" || len(traceID) > maxTraceID {
		return
	}
	m.durations.mu.RLock()
	r := m.durations.recorders[seriesKey{ingress, partition}]
	m.durations.mu.RUnlock()
	if r == nil {
		return
	}
	if s := r.series[min(int(o), outcomes-1)].Load(); s != nil {
		s.attach(latency.Seconds(), traceID)
	}
}

type gateObserver struct {
	durations *durations
	ingress   string
}

// Recorder implements limiter.Observer.
func (g *gateObserver) Recorder(partition string) limiter.Recorder {
	return g.durations.recorder(seriesKey{g.ingress, partition})
}

type seriesKey struct{ ingress, partition string }

// durations collects the latency histogram and the permits ended, which are its
// counts.
type durations struct {
	held, ended, waited, spent family

	mu        sync.RWMutex // guards the fields below
	recorders map[seriesKey]*recorder
	own       map[string]*series // by ingress: what the gate itself took
}

func newDurations() *durations {
	return &durations{
		held:      family{namespace + "_request_duration_seconds", "Time that the backend took for requests, by how the work went.", dto.MetricType_HISTOGRAM},
		waited:    family{namespace + "_queue_wait_seconds", "Time that admitted requests waited in the gate, of those that waited.", dto.MetricType_HISTOGRAM},
		ended:     newCounter("permits_ended_total", "Permits that were ended, by how the work went."),
		spent:     family{namespace + "_gate_duration_seconds", "Time that the gate itself took of a request, without the backend and without waiting; of a sample of requests.", dto.MetricType_HISTOGRAM},
		recorders: map[seriesKey]*recorder{},
		own:       map[string]*series{},
	}
}

// ownBuckets are upper bounds in seconds, from a decision to what is felt.
var ownBuckets = []float64{ //nolint:gochecknoglobals // a constant, were slices allowed to be
	.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .1,
}

// Own returns what records how long the gate of an ingress itself took of a
// request. Recording takes no lock and allocates nothing.
func (m *Metrics) Own(ingress string) func(d time.Duration) {
	m.durations.mu.Lock()
	defer m.durations.mu.Unlock()
	s := m.durations.own[ingress]
	if s == nil {
		s = newSeries(ownBuckets)
		m.durations.own[ingress] = s
	}
	return func(d time.Duration) { s.histogram.Observe(d.Seconds()) }
}

// OwnTimes is [Metrics.Latencies] of what the gate of an ingress itself took.
func (m *Metrics) OwnTimes(ingress string) map[float64]uint64 {
	m.durations.mu.RLock()
	s := m.durations.own[ingress]
	m.durations.mu.RUnlock()
	return s.counts()
}

// recorder returns the one recorder of a series. Partitions of clients' keys
// come with the label "default" and share theirs.
func (d *durations) recorder(key seriesKey) *recorder {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.recorders[key]
	if r == nil {
		r = &recorder{}
		d.recorders[key] = r
	}
	return r
}

// collect implements [source].
func (d *durations) collect(b *builder) {
	d.mu.RLock()
	recorders, own := maps.Clone(d.recorders), maps.Clone(d.own)
	d.mu.RUnlock()
	for ingress, s := range own {
		if metric := s.read(); metric.GetHistogram().GetSampleCount() > 0 {
			metric.Label = []*dto.LabelPair{pair("ingress", ingress)}
			spent := b.family(&d.spent)
			spent.Metric = append(spent.Metric, metric)
		}
	}
	for key, r := range recorders {
		ingress, partition := pair("ingress", key.ingress), pair("partition", key.partition)
		for o := range outcomes {
			s := r.series[o].Load()
			if s == nil {
				continue
			}
			pairs := []*dto.LabelPair{ingress, b.label("outcome", limiter.Outcome(o).String()), partition}
			metric := s.read()
			metric.Label = pairs
			held := b.family(&d.held) // not before there is one: an empty family fails the scrape
			held.Metric = append(held.Metric, metric)
			b.add(&d.ended, float64(metric.GetHistogram().GetSampleCount()), pairs...)
		}
		if w := r.waits.Load(); w != nil {
			metric := w.read()
			metric.Label = []*dto.LabelPair{ingress, partition}
			waited := b.family(&d.waited)
			waited.Metric = append(waited.Metric, metric)
		}
	}
}

// recorder records the ends of permits under one label. A series begins with
// its first latency: most partitions never drop or ignore.
type recorder struct {
	series [outcomes]atomic.Pointer[series]
	waits  atomic.Pointer[series] // in the gate, before they were admitted
}

// Ended implements limiter.Recorder.
func (r *recorder) Ended(latency time.Duration, o limiter.Outcome) {
	i := min(int(o), outcomes-1)
	s := r.series[i].Load()
	if s == nil {
		s = r.begin(i)
	}
	s.histogram.Observe(latency.Seconds())
}

// Waited records how long an admitted request waited in the gate: the limiter
// finds it by shape.
func (r *recorder) Waited(d time.Duration) {
	s := r.waits.Load()
	if s == nil {
		r.waits.CompareAndSwap(nil, newSeries(classicBuckets))
		s = r.waits.Load()
	}
	s.histogram.Observe(d.Seconds())
}

// begin makes a series. Of two who begin at once, both use the first one's.
func (r *recorder) begin(i int) *series {
	r.series[i].CompareAndSwap(nil, newSeries(classicBuckets))
	return r.series[i].Load()
}

// newSeries returns an empty histogram.
func newSeries(bounds []float64) *series {
	return &series{histogram: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "request_duration_seconds", Help: "Named and described by the builder.",
		Buckets:                         bounds,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeBuckets,
		NativeHistogramMinResetDuration: nativeReset,
	})}
}

// series is one histogram with the last trace seen in each of its buckets.
type series struct {
	histogram prometheus.Histogram
	traces    [31]atomic.Pointer[dto.Exemplar] // one per classic bucket, the last for +Inf
}

// attach keeps a trace for the bucket of value, in seconds.
func (s *series) attach(value float64, traceID string) {
	i := 0
	for i < len(classicBuckets) && value > classicBuckets[i] {
		i++
	}
	s.traces[i].Store(&dto.Exemplar{
		Label: []*dto.LabelPair{pair("trace_id", traceID)}, Value: &value, Timestamp: timestamppb.Now(),
	})
}

// read reads the histogram, with the traces in their buckets.
func (s *series) read() *dto.Metric {
	metric := &dto.Metric{}
	if err := s.histogram.Write(metric); err != nil { // cannot happen: writing to memory
		metric.Histogram = &dto.Histogram{}
	}
	h := metric.GetHistogram()
	for i, b := range h.GetBucket() {
		b.Exemplar = s.traces[i].Load()
	}
	if e := s.traces[len(classicBuckets)].Load(); e != nil {
		h.Bucket = append(h.Bucket, &dto.Bucket{
			CumulativeCount: new(h.GetSampleCount()), UpperBound: new(math.Inf(1)), Exemplar: e,
		})
	}
	return metric
}
