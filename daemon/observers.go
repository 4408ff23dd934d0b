package daemon

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/ingress/mongogate"
	"github.com/admitd/admitd/ingress/pulsargate"
	"github.com/admitd/admitd/observe"
)

// protocolMetrics count what only one protocol knows. Every label value comes
// from the configuration or from a closed set.
type protocolMetrics struct {
	handshakes, unanswered     *prometheus.CounterVec
	limited, throttled, events *prometheus.CounterVec
	queues                     *queueCollector
	backends                   *backendCollector
}

// newProtocolMetrics registers the counters.
func newProtocolMetrics(m *observe.Metrics) (*protocolMetrics, error) {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"ingress"}, labels...))
	}
	p := &protocolMetrics{
		handshakes: vec("admitd_mongodb_handshakes_total", "Connections by what the driver announced about backpressure.", "generation"),
		unanswered: vec("admitd_mongodb_unanswered_dropped_total", "Refused commands whose client wants no reply."),
		limited:    vec("admitd_pulsar_limited_total", "Messages that a limit did not let through at once.", "topic", "limit"),
		throttled:  vec("admitd_pulsar_throttled_seconds_total", "Time in which producers could not send.", "topic", "reason"),
		events:     vec("admitd_pulsar_events_total", "What happened on connections to brokers and producers.", "event"),
	}
	p.queues, p.backends = newQueueCollector(), newBackendCollector()
	var errs []error
	for _, c := range []prometheus.Collector{p.handshakes, p.unanswered, p.limited, p.throttled, p.events, p.queues, p.backends} {
		errs = append(errs, m.Register(c))
	}
	return p, errors.Join(errs...)
}

// mongoObserver counts for one MongoDB ingress.
type mongoObserver struct {
	byGeneration map[mongogate.Generation]prometheus.Counter
	unanswered   prometheus.Counter
}

// mongo returns the observer of one ingress.
func (p *protocolMetrics) mongo(ingress string) *mongoObserver {
	o := &mongoObserver{byGeneration: map[mongogate.Generation]prometheus.Counter{}, unanswered: p.unanswered.WithLabelValues(ingress)}
	for _, g := range []mongogate.Generation{mongogate.Silent, mongogate.Retrying, mongogate.Hinted} {
		o.byGeneration[g] = p.handshakes.WithLabelValues(ingress, g.String())
	}
	return o
}

// Handshake implements [mongogate.Observer].
func (o *mongoObserver) Handshake(g mongogate.Generation) { o.byGeneration[g].Inc() }

// FireAndForgetDropped implements [mongogate.Observer].
func (o *mongoObserver) FireAndForgetDropped() { o.unanswered.Inc() }

// pulsarObserver counts for one Pulsar ingress.
type pulsarObserver struct {
	limited, throttled *prometheus.CounterVec // the ingress is filled in
	events             map[string]prometheus.Counter
}

// pulsar returns the observer of one ingress.
func (p *protocolMetrics) pulsar(ingress string) *pulsarObserver {
	by := prometheus.Labels{"ingress": ingress}
	o := &pulsarObserver{
		limited: p.limited.MustCurryWith(by), throttled: p.throttled.MustCurryWith(by), events: map[string]prometheus.Counter{},
	}
	for _, e := range pulsargate.Events() {
		o.events[e] = p.events.WithLabelValues(ingress, e)
	}
	return o
}

// Limited implements [pulsargate.Observer].
func (o *pulsarObserver) Limited(topic, limit string) { o.limited.WithLabelValues(topic, limit).Inc() }

// Throttled implements [pulsargate.Observer].
func (o *pulsarObserver) Throttled(topic, reason string, d time.Duration) {
	o.throttled.WithLabelValues(topic, reason).Add(max(d, 0).Seconds())
}

// Happened implements [pulsargate.Observer].
func (o *pulsarObserver) Happened(event string) {
	if c, ok := o.events[event]; ok {
		c.Inc()
	}
}

// queueCollector reads what queue gates hold back when somebody scrapes.
type queueCollector struct {
	watched[*pulsargate.Server]

	heldFrames, heldBytes, paused, producers *prometheus.Desc
}

func newQueueCollector() *queueCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"ingress"}, nil)
	}
	return &queueCollector{
		heldFrames: desc("admitd_pulsar_held_frames", "Messages that wait in the gate for their producer's turn."),
		heldBytes:  desc("admitd_pulsar_held_bytes", "Size of the messages that wait in the gate."),
		paused:     desc("admitd_pulsar_paused_connections", "Connections that the gate does not read from."),
		producers:  desc("admitd_pulsar_producers", "Producers that are open."),
	}
}

// Describe implements [prometheus.Collector].
func (q *queueCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{q.heldFrames, q.heldBytes, q.paused, q.producers} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (q *queueCollector) Collect(ch chan<- prometheus.Metric) {
	for ingress, server := range q.byIngress() {
		s := server.Status()
		emit := func(d *prometheus.Desc, v int64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), ingress) //nolint:promlinter // cannot follow d; the running daemon is linted in a test
		}
		emit(q.heldFrames, s.HeldFrames)
		emit(q.heldBytes, s.HeldBytes)
		emit(q.paused, s.Paused)
		emit(q.producers, s.Producers)
	}
}
