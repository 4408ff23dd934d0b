package protocol

import (
	"crypto/tls"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/keys"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/limiter"
)

// protocolPulsar is what the daemon knows of Pulsar.
func protocolPulsar() *Protocol {
	p := &Protocol{Name: "pulsar"}
	p.Open = func(k *Kit) (func(*config.Ingress, *limiter.Gate) (*Server, error), error) {
		counts := newPulsarMetrics()
		build := func(in *config.Ingress, g *limiter.Gate) (*Server, error) { return p.newPulsar(k, counts, in, g) }
		return build, k.Register(counts.limited, counts.throttled, counts.events, counts.queues)
	}
	return p
}

// newPulsar builds the server of a Pulsar ingress.
func (p *Protocol) newPulsar(k *Kit, counts *pulsarMetrics, in *config.Ingress, g *limiter.Gate) (*Server, error) {
	observer := counts.of(in.Name)
	options := func(in *config.Ingress) (pulsargate.Options, error) {
		o, err := pulsarOptions(in)
		o.Log, o.Observer, o.TopKeys = k.Log, observer, k.TopKeys(in.Name)
		o.Counts = k.counts(in.Name)
		return o, err
	}
	o, err := options(in)
	if err != nil {
		return nil, err
	}
	s, err := pulsargate.New(g, o)
	if err != nil {
		return nil, err
	}
	w, err := p.Wire(k, in, func(*tls.Config) (ingress.Handler, error) { return s, nil }, func(in *config.Ingress, _ *tls.Config) (Change, error) {
		o, err := options(in)
		if err != nil {
			return Change{}, err
		}
		apply, err := s.Prepare(o)
		return Change{Apply: apply}, err
	})
	if err != nil {
		return nil, err
	}
	bound := w.Set
	w.Set = func(in *config.Ingress) {
		bound(in)
		s.SetLimits(pulsarLimits(in)) // of which the mode may change
	}
	w.Backends = s.Backends
	w.Details = func() any { return s.Status() }
	w.Watch = func() (stop func()) { return counts.queues.watch(in.Name, s) }
	return w, nil
}

// pulsarBy turns the configuration's word into the gate's.
func pulsarBy(by []string) pulsargate.By {
	if len(by) == 0 {
		return pulsargate.ByTopic
	}
	switch by[0] {
	case "namespace":
		return pulsargate.ByNamespace
	case "tenant":
		return pulsargate.ByTenant
	case "client":
		return pulsargate.ByClient
	default:
		return pulsargate.ByTopic
	}
}

// pulsarOptions turns an ingress of the configuration into the gate's options.
func pulsarOptions(in *config.Ingress) (pulsargate.Options, error) {
	upstream, err := keys.Backend(in)
	if err != nil {
		return pulsargate.Options{}, err
	}
	address := in.Backend
	if _, rest, ok := strings.Cut(address, "://"); ok {
		address = strings.TrimSuffix(rest, "/")
	}
	o := pulsargate.Options{
		Backend: address, BackendTLS: upstream, By: pulsarBy(in.Partitions.By), Limits: pulsarLimits(in), Classes: Classes(in),
		CancelAbandoned: in.Abandon == "cancel",
	}
	if c := in.Pulsar; c != nil {
		o.Brokers, o.MaxMessageSize = c.Brokers, int(c.MaxMessageSize)
		o.ReceiptWait = time.Duration(c.ThrottleProducerReceiptWaitTimeMillis) * time.Millisecond
		o.MinPause = time.Duration(c.MinPause)
		if o.MinPause == 0 {
			o.MinPause = pulsargate.NoPause
		}
		o.DialTimeout, o.StallTimeout = time.Duration(c.DialTimeout), time.Duration(c.StallTimeout)
		switch c.Method {
		case "hold":
			o.Method = pulsargate.Hold
		case "pause":
			o.Method = pulsargate.Pause
		}
	}
	return o, nil
}

// pulsarLimits turns the configuration's publish rates into the gate's limits.
func pulsarLimits(in *config.Ingress) pulsargate.Limits {
	mode, _ := limiter.ParseMode(in.Mode) // Policy has checked it
	l := pulsargate.Limits{Mode: mode}
	p := in.Pulsar
	if p == nil {
		return l
	}
	rate := func(messages float64, bytes config.Size, burst float64) topics.PublishRate {
		return topics.PublishRate{Messages: messages, Bytes: float64(bytes), BurstSeconds: burst}
	}
	l.Gate = rate(p.PublishRate.Messages, p.PublishRate.Bytes, p.PublishRate.BurstSeconds)
	l.Topic = rate(p.TopicPublishRate.Messages, p.TopicPublishRate.Bytes, p.TopicPublishRate.BurstSeconds)
	for _, t := range p.Topics {
		l.Topics = append(l.Topics, topics.Limit{
			Name: t.Name, Match: t.Match, PublishRate: rate(t.Messages, t.Bytes, t.BurstSeconds),
		})
	}
	for _, g := range p.ResourceGroups {
		l.Groups = append(l.Groups, topics.Group{
			Name: g.Name, Match: g.Match, PublishRate: rate(g.Messages, g.Bytes, g.BurstSeconds),
		})
	}
	l.MaxPending, l.MaxHeldBytes, l.MaxGateHeldBytes = p.MaxPending, int(p.MaxHeldBytes), int(p.MaxGateHeldBytes)
	l.MaxProducers, l.MaxTopics = p.MaxProducers, p.MaxTopics
	return l
}

// pulsarMetrics count what only Pulsar ingresses know. Every label value comes
// from the configuration or from a closed set.
type pulsarMetrics struct {
	limited, throttled, events *prometheus.CounterVec
	queues                     *queueCollector
}

func newPulsarMetrics() *pulsarMetrics {
	return &pulsarMetrics{
		limited:   counters("admitd_pulsar_limited_total", "Messages that a limit did not let through at once.", "topic", "limit"),
		throttled: counters("admitd_pulsar_throttled_seconds_total", "Time in which producers could not send.", "topic", "reason"),
		events:    counters("admitd_pulsar_events_total", "What happened on connections to brokers and producers.", "event"),
		queues:    newQueueCollector(),
	}
}

// pulsarObserver counts for one Pulsar ingress.
type pulsarObserver struct {
	limited, throttled *prometheus.CounterVec // the ingress is filled in
	events             map[string]prometheus.Counter
}

// of returns the observer of one ingress.
func (p *pulsarMetrics) of(ingress string) *pulsarObserver {
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
