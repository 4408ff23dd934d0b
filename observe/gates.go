package observe

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// StatusReader is a gate, as far as it is read at scrape time.
type StatusReader interface {
	Status() limiter.Status
}

// Watch exposes the status of a gate until stop is called. Gates are told apart
// by the name in their status; of two with one name the later is exposed.
func (m *Metrics) Watch(name string, g StatusReader) (stop func()) { return m.gates.watch(name, g) }

// RecordHint notes the wait that a refused request of the ingress was told.
func (m *Metrics) RecordHint(ingress string, retryAfter time.Duration) {
	m.gates.hint(ingress, retryAfter)
}

// gates collects the metrics that follow from the status of gates.
type gates struct {
	received, admitted, rejected, exempted    family
	abandoned, wouldReject, discarded         family
	limit, inFlight, queued, baseRTT, state   family
	tokens, waiting, fallback, draining, mode family
	partitions, total, lastHint               family

	reasons []*dto.LabelPair // in the order of labels.Reasons
	modes   []*dto.LabelPair // by limiter.Mode

	mu    sync.Mutex // guards the fields below
	read  map[string]StatusReader
	hints map[string]time.Duration
}

func newGates() *gates {
	g := &gates{
		read:  map[string]StatusReader{},
		hints: map[string]time.Duration{},

		received:    newCounter("requests_received_total", "Requests that were decided, or whose caller gave up waiting.", "ingress", "partition"),
		admitted:    newCounter("requests_admitted_total", "Requests that were granted a permit.", "ingress", "partition"),
		rejected:    newCounter("requests_rejected_total", "Requests that were refused before any work ran.", "ingress", "partition", "reason"),
		exempted:    newCounter("requests_exempted_total", "Requests that passed because they are exempt.", "ingress"),
		abandoned:   newCounter("requests_abandoned_total", "Requests whose caller went away while they waited.", "ingress", "partition"),
		wouldReject: newCounter("requests_would_reject_total", "Requests that passed in shadow mode and would have been refused.", "ingress", "partition", "reason"),
		discarded:   newCounter("latency_samples_discarded_total", "Latencies that taught no limit.", "ingress", "partition", "reason"),

		limit:    newGauge("concurrency_limit", "Permits that may be held at once; for the partitions of clients' keys together, their sum.", "algorithm", "ingress", "partition"),
		inFlight: newGauge("requests_in_flight", "Permits held.", "ingress", "partition"),
		queued:   newGauge("requests_queued", "Requests that wait for a permit.", "ingress", "partition"),
		baseRTT:  newGauge("base_rtt_seconds", "Latency without load, as the limit believes it; absent while unknown.", "ingress", "partition"),
		state:    newGauge("algorithm_state", "Inner state of the limit's algorithm, by name.", "ingress", "partition", "state"),

		tokens:     newGauge("bucket_tokens", "Tokens left in a bucket; negative when some are owed.", "bucket", "ingress"),
		waiting:    newGauge("bucket_waiting", "Requests that borrowed tokens and wait out their debt.", "bucket", "ingress"),
		fallback:   newGauge("fallback_active", "1 while limits are fixed because the clock cannot be trusted.", "ingress"),
		draining:   newGauge("ingress_draining", "1 once the ingress admits nothing new.", "ingress"),
		mode:       newGauge("ingress_mode", "1 for the mode that is in force.", "ingress", "mode"),
		partitions: newGauge("partitions", "Partitions that exist, clients' keys included.", "ingress"),
		total:      newGauge("permits_total_limit", "Hard bound on permits over all partitions; 0 = none.", "ingress"),
		lastHint:   newGauge("last_retry_hint_seconds", "The wait that the last refused request was told.", "ingress"),
	}
	for _, reason := range labels.Reasons() {
		g.reasons = append(g.reasons, pair("reason", string(reason)))
	}
	for _, mode := range []limiter.Mode{limiter.Enforce, limiter.Shadow, limiter.Off} {
		g.modes = append(g.modes, pair("mode", mode.String()))
	}
	return g
}

func (g *gates) watch(name string, r StatusReader) (stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.read[name] = r
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.read[name] == r {
			delete(g.read, name)
			delete(g.hints, name)
		}
	}
}

func (g *gates) hint(ingress string, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.read[ingress] != nil { // only names that are watched: the map stays bounded
		g.hints[ingress] = d
	}
}

// Describe implements prometheus.Collector.
func (g *gates) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []family{
		g.received, g.admitted, g.rejected, g.exempted, g.abandoned, g.wouldReject, g.discarded,
		g.limit, g.inFlight, g.queued, g.baseRTT, g.state,
		g.tokens, g.waiting, g.fallback, g.draining, g.mode, g.partitions, g.total, g.lastHint,
	} {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (g *gates) Collect(ch chan<- prometheus.Metric) {
	g.mu.Lock()
	read := maps.Clone(g.read)
	hints := maps.Clone(g.hints)
	g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(read)) {
		s := read[name].Status()
		ingress := pair("ingress", name)
		g.collectGate(ch, ingress, &s)
		for i := range s.Labels {
			g.collectLabel(ch, ingress, &s.Labels[i])
		}
		if d, ok := hints[name]; ok {
			g.lastHint.send(ch, d.Seconds(), ingress)
		}
	}
}

// collectGate emits what exists once per gate.
func (g *gates) collectGate(ch chan<- prometheus.Metric, ingress *dto.LabelPair, s *limiter.Status) {
	var exempted uint64
	for i := range s.Labels {
		exempted += s.Labels[i].Counts.Exempted
	}
	g.exempted.send(ch, float64(exempted), ingress)
	g.fallback.send(ch, number(s.Fallback), ingress)
	g.draining.send(ch, number(s.Draining), ingress)
	g.partitions.send(ch, float64(len(s.Partitions)), ingress)
	g.total.send(ch, float64(s.Total), ingress)
	for i, mode := range g.modes {
		g.mode.send(ch, number(int(s.Mode) == i), ingress, mode)
	}
	g.collectBucket(ch, ingress, "requests", s.Bucket)
	for i := range s.Partitions {
		// Only partitions of the configuration: their names are bounded.
		if p := &s.Partitions[i]; p.Bucket != nil && p.Name == p.Label {
			g.collectBucket(ch, ingress, "partition/"+p.Name, p.Bucket)
		}
	}
}

func (g *gates) collectBucket(ch chan<- prometheus.Metric, ingress *dto.LabelPair, name string, b *limiter.BucketStatus) {
	if b == nil {
		return
	}
	bucket := pair("bucket", name)
	g.tokens.send(ch, b.Tokens, bucket, ingress)
	g.waiting.send(ch, float64(b.Waiting), bucket, ingress)
}

// collectLabel emits what exists once per partition label.
func (g *gates) collectLabel(ch chan<- prometheus.Metric, ingress *dto.LabelPair, l *limiter.LabelStatus) {
	partition := pair("partition", l.Label)
	both := []*dto.LabelPair{ingress, partition} // shared by every sample that has no more
	c := &l.Counts
	g.received.send(ch, float64(c.Received()), both...)
	g.admitted.send(ch, float64(c.Admitted), both...)
	g.abandoned.send(ch, float64(c.Abandoned), both...)
	for i, reason := range labels.Reasons() {
		g.rejected.send(ch, float64(c.Rejected[reason]), ingress, partition, g.reasons[i])
		if n := c.WouldReject[reason]; n > 0 {
			g.wouldReject.send(ch, float64(n), ingress, partition, g.reasons[i])
		}
	}
	for reason, n := range c.Discarded {
		if n > 0 {
			g.discarded.send(ch, float64(n), ingress, partition, pair("reason", reason))
		}
	}
	g.limit.send(ch, float64(l.Limit), pair("algorithm", l.Algorithm), ingress, partition)
	g.inFlight.send(ch, float64(l.InFlight), both...)
	g.queued.send(ch, float64(l.Queued), both...)
	if l.BaseRTT > 0 {
		g.baseRTT.send(ch, l.BaseRTT.Seconds(), both...)
	}
	for name, value := range l.State {
		g.state.send(ch, value, ingress, partition, pair("state", name))
	}
}
