package protocol

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/keys"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// protocolMongoDB is what the daemon knows of MongoDB.
func protocolMongoDB() *Protocol {
	p := &Protocol{Name: "mongodb", Bypass: mongogate.ErrBypass}
	p.Open = func(k *Kit) (func(*config.Ingress, *limiter.Gate) (*Server, error), error) {
		counts := newMongoMetrics()
		build := func(in *config.Ingress, g *limiter.Gate) (*Server, error) { return p.newMongo(k, counts, in, g) }
		return build, k.Register(counts.handshakes, counts.unanswered)
	}
	return p
}

// newMongo builds the server of a MongoDB ingress.
func (p *Protocol) newMongo(k *Kit, counts *mongoMetrics, in *config.Ingress, g *limiter.Gate) (*Server, error) {
	observer := counts.of(in.Name)
	options := func(in *config.Ingress) (mongogate.Options, error) {
		o, err := mongoOptions(in)
		o.Log, o.Observer, o.TopKeys = k.Log, observer, k.TopKeys(in.Name)
		o.Counts = k.counts(in.Name)
		return o, err
	}
	o, err := options(in)
	if err != nil {
		return nil, err
	}
	s, err := mongogate.New(g, o)
	if err != nil {
		return nil, err
	}
	asked := whatIsProbed(in) // guarded by whoever changes configurations
	w, err := p.Wire(k, in, func(*tls.Config) (ingress.Handler, error) { return s, nil }, func(in *config.Ingress, _ *tls.Config) (Change, error) {
		o, err := options(in)
		if err != nil {
			return Change{}, err
		}
		apply, err := s.Prepare(o)
		c := Change{Apply: func() { asked = whatIsProbed(in); apply() }}
		if !reflect.DeepEqual(asked, whatIsProbed(in)) {
			c.Probe = func(ctx context.Context) error { return mongogate.Probe(ctx, o) }
		}
		return c, err
	})
	if err != nil {
		return nil, err
	}
	w.Probe, w.Backends = s.Probe, s.Backends
	w.Details = func() any {
		door := w.Connections()
		return mongoDetails{Status: s.Status(), Total: door.Accepted, Establishment: mongogate.Establishment(door)}
	}
	return w, nil
}

// probed is what the answer of a probe depends on.
type probed struct {
	backend  string
	tls      config.ClientTLS
	more     []string
	topology config.Topology
}

// whatIsProbed returns it of an ingress.
func whatIsProbed(in *config.Ingress) probed {
	p := probed{backend: in.Backend, tls: in.BackendTLS}
	if m := in.MongoDB; m != nil {
		p.more, p.topology = m.MoreBackends, m.Topology
	}
	return p
}

// mongoOptions turns an ingress of the configuration into the gate's options.
func mongoOptions(in *config.Ingress) (mongogate.Options, error) {
	upstream, err := keys.Backend(in)
	if err != nil {
		return mongogate.Options{}, err
	}
	o := mongogate.Options{
		Backends: []string{in.Backend}, BackendTLS: upstream, PartitionBy: in.Partitions.By, Classes: Classes(in), Costs: mongoCosts(&in.Cost),
		Exempt: mongogate.Exemptions{
			Clients: prefixes(in.Requests.Exempt.CIDRs), Applications: in.Requests.Exempt.Applications,
			Commands: in.Requests.Exempt.Operations,
		},
		Refusal: mongogate.Refusal{NoHints: !in.Rejection.Hints}, CancelAbandoned: in.Abandon == "cancel",
	}
	var ok bool
	if o.Unauthenticated, ok = mongogate.ParseUnauthenticated(in.Requests.Unauthenticated); !ok {
		return o, fmt.Errorf("requests.unauthenticated %s is not known", in.Requests.Unauthenticated)
	}
	if m := in.MongoDB; m != nil {
		mode, ok := mongogate.ParseTopologyMode(m.Topology.Mode)
		if !ok {
			return o, fmt.Errorf("topology mode %s is not known", m.Topology.Mode)
		}
		o.Topology = mongogate.Topology{Mode: mode, Members: m.Topology.Members}
		o.Backends = append(o.Backends, m.MoreBackends...)
		o.DialTimeout, o.HandshakeTimeout = time.Duration(m.DialTimeout), time.Duration(m.HandshakeTimeout)
		o.FrameTimeout, o.MaxMessageBytes = time.Duration(m.FrameTimeout), int(m.MaxMessageBytes)
		o.IdentifyWindow, o.ReplyBytesPerToken = int(m.IdentifyWindow), int(m.ReplyBytesPerToken)
		o.Refusal.DenyRetries = !m.Refusal.AllowRetries
		o.Refusal.WaitAnnounced = time.Duration(m.Refusal.WaitAnnounced)
		o.Refusal.WaitSilent = time.Duration(m.Refusal.WaitSilent)
		o.TestCommands, o.HoldStreams = m.TestCommands, m.HoldStreams
	}
	return o, nil
}

// mongoDetails are the counters of a MongoDB ingress under the names that
// serverStatus uses.
type mongoDetails struct {
	mongogate.Status

	Total         uint64                        `json:"connectionsTotalCreated"`
	Establishment mongogate.EstablishmentStatus `json:"ingressSessionEstablishment"`
}

// mongoCosts gives the classes of commands that the configuration does not name
// the default cost.
func mongoCosts(c *config.Cost) map[string]float64 {
	costs := map[string]float64{}
	for _, class := range []string{"read", "write", "admin", "other"} {
		costs[class] = c.Default
	}
	maps.Copy(costs, c.ByOperation)
	return costs
}

// mongoMetrics count what only MongoDB ingresses know. Every label value comes
// from the configuration or from a closed set.
type mongoMetrics struct{ handshakes, unanswered *prometheus.CounterVec }

func newMongoMetrics() *mongoMetrics {
	return &mongoMetrics{
		handshakes: counters("admitd_mongodb_handshakes_total", "Connections by what the driver announced about backpressure.", "generation"),
		unanswered: counters("admitd_mongodb_unanswered_dropped_total", "Refused commands whose client wants no reply."),
	}
}

// mongoObserver counts for one MongoDB ingress.
type mongoObserver struct {
	byGeneration map[mongogate.Generation]prometheus.Counter
	unanswered   prometheus.Counter
}

// of returns the observer of one ingress.
func (p *mongoMetrics) of(ingress string) *mongoObserver {
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
