package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"strings"
	"time"

	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/ingress/httpgate"
	"github.com/admitd/admitd/ingress/mongogate"
	"github.com/admitd/admitd/ingress/pulsargate"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// forever stands for "no bound" where a zero means a default.
const forever = 24 * time.Hour

// porch returns what every protocol's server needs to know of connections, and
// the keys that its TLS serves from; nil = plain TCP.
func (d *Daemon) porch(in *config.Ingress) (ingress.Options, *keys, error) {
	o := ingress.Options{
		Connections: connections(&in.Connections), ProxyProtocol: in.ProxyProtocol,
		Clock: d.clock, Log: d.log, DrainTimeout: drainTimeout(in),
	}
	k, err := keysOf(in)
	if k != nil {
		o.TLS = k.config()
	}
	return o, k, err
}

// backendTLS returns how the backend is dialled; nil = plain TCP.
func backendTLS(in *config.Ingress) (*tls.Config, error) {
	t := in.BackendTLS
	implied := strings.HasPrefix(in.Backend, "https:") || strings.HasPrefix(in.Backend, "pulsar+ssl:")
	if !t.Enabled && !implied {
		return nil, nil //nolint:nilnil // nil means no TLS, as documented
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify, //nolint:gosec // the operator asked for it by name
	}
	if t.CAFile != "" {
		pool, err := readPool(t.CAFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = pool
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("backend certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

// httpServer is the HTTP gate as a [server].
type httpServer struct {
	*httpgate.Server

	d    *Daemon
	gate *limiter.Gate
	keys *keys
}

// newHTTP builds the server of an HTTP ingress.
func (d *Daemon) newHTTP(in *config.Ingress, g *limiter.Gate) (server, error) {
	o, k, err := d.httpOptions(in, g)
	if err != nil {
		return nil, err
	}
	s, err := httpgate.New(g, o)
	if err != nil {
		return nil, err
	}
	return &httpServer{Server: s, d: d, gate: g, keys: k}, nil
}

// httpOptions turns an ingress of the configuration into the gate's options.
func (d *Daemon) httpOptions(in *config.Ingress, g *limiter.Gate) (httpgate.Options, *keys, error) {
	porch, k, err := d.porch(in)
	if err != nil {
		return httpgate.Options{}, nil, err
	}
	upstream, err := backendTLS(in)
	if err != nil {
		return httpgate.Options{}, nil, err
	}
	o := httpgate.Options{
		Backend: in.Backend, BackendTLS: upstream, By: in.Partitions.By,
		Exempt: httpgate.Exempt{
			CIDRs: prefixes(in.Requests.Exempt.CIDRs), Applications: in.Requests.Exempt.Applications,
			Operations: in.Requests.Exempt.Operations,
		},
		CostHeader: in.Cost.Header, DefaultCost: in.Cost.Default, Status: int(in.Rejection.Status), NoHints: !in.Rejection.Hints,
		Rate: rateOf(g), CancelAbandoned: in.Abandon == "cancel",
		RequestTimeout: orForever(in.BackendTimeout), MaxHeader: int(in.MaxHeaderBytes), MaxBody: int64(in.MaxBodyBytes),
		Hello:    labels.ServeHello(func() (labels.Hello, bool) { return d.hello(in.Name) }),
		Observer: d.httpObserver(in.Name),
		Ingress:  porch,
	}
	if o.MaxBody == 0 {
		o.MaxBody = -1
	}
	for op, tokens := range in.Cost.ByOperation {
		o.Costs = append(o.Costs, httpgate.Cost{Operation: op, Tokens: tokens})
	}
	if h := in.HTTP; h != nil {
		o.ConnectTimeout, o.HeaderTimeout = time.Duration(h.ConnectTimeout), time.Duration(h.HeaderTimeout)
		o.StreamIdle, o.IdleTimeout = time.Duration(h.StreamIdle), time.Duration(h.IdleTimeout)
		o.BodyGrace, o.MinBodyRate = time.Duration(h.BodyGrace), int(h.MinBodyRate)
		if o.MinBodyRate == 0 {
			o.MinBodyRate = -1
		}
		o.MaxIdle, o.Via, o.TrustForwarded, o.HoldStreams = h.MaxIdle, h.Via, h.TrustForwarded, h.HoldStreams
	}
	return o, k, nil
}

// Prepare implements [server].
func (s *httpServer) Prepare(in *config.Ingress) (apply func(), err error) {
	o, k, err := s.d.httpOptions(in, s.gate)
	if err != nil {
		return nil, err
	}
	if _, err := httpgate.New(s.gate, o); err != nil {
		return nil, err
	}
	return func() {
		if err := s.Apply(o); err != nil { // New took the same options
			s.d.log.Error("ingress keeps its old settings", slog.String("ingress", in.Name), slog.Any("error", err))
		}
		s.keys.take(k)
	}, nil
}

// Connections implements [server].
func (s *httpServer) Connections() ingress.Status { return s.Status().Connections }

// Details implements [server].
func (s *httpServer) Details() any {
	st := s.Status()
	return map[string]any{
		"tunnels": st.Tunnels, "backendIdle": st.BackendIdle, "backendDials": st.BackendDials, "retries": st.Retries,
		"backendFailures": failures(st.BackendFailures),
	}
}

// failures names the counts of a backend's failures.
func failures(counts []uint64) map[string]uint64 {
	out := map[string]uint64{}
	for _, c := range httpgate.Causes() {
		out[c.String()] = counts[c]
	}
	return out
}

// wireServer is a gate for a wire protocol as a [server].
type wireServer struct {
	*ingress.Server

	keys    *keys
	details func() any
	apply   func(in *config.Ingress)
	probe   func(ctx context.Context) error // asks the backend before listening; nil = nothing to ask
	watch   func() (stop func())            // exposes the protocol's own gauges; nil = there are none
}

// Prepare implements [server].
func (s *wireServer) Prepare(in *config.Ingress) (apply func(), err error) {
	k, err := keysOf(in)
	if err != nil {
		return nil, err
	}
	return func() {
		s.Apply(connections(&in.Connections))
		s.keys.take(k)
		if s.apply != nil {
			s.apply(in)
		}
	}, nil
}

// Connections implements [server].
func (s *wireServer) Connections() ingress.Status { return s.Status() }

// Details implements [server].
func (s *wireServer) Details() any { return s.details() }

// newMongo builds the server of a MongoDB ingress.
func (d *Daemon) newMongo(in *config.Ingress, g *limiter.Gate) (server, error) {
	porch, k, err := d.porch(in)
	if err != nil {
		return nil, err
	}
	upstream, err := backendTLS(in)
	if err != nil {
		return nil, err
	}
	o := mongogate.Options{
		Backends: []string{in.Backend}, BackendTLS: upstream, PartitionBy: in.Partitions.By, Costs: mongoCosts(&in.Cost),
		Exempt: mongogate.Exemptions{
			Clients: prefixes(in.Requests.Exempt.CIDRs), Applications: in.Requests.Exempt.Applications,
			Commands: in.Requests.Exempt.Operations,
		},
		Refusal: mongogate.Refusal{NoHints: !in.Rejection.Hints},
		Log:     d.log, Observer: d.protocols.mongo(in.Name),
	}
	if m := in.MongoDB; m != nil {
		mode, ok := mongogate.ParseTopologyMode(m.Topology.Mode)
		if !ok {
			return nil, fmt.Errorf("topology mode %s is not known", m.Topology.Mode)
		}
		o.Topology = mongogate.Topology{Mode: mode, Members: m.Topology.Members}
		o.Backends = append(o.Backends, m.MoreBackends...)
		o.DialTimeout, o.HandshakeTimeout = time.Duration(m.DialTimeout), time.Duration(m.HandshakeTimeout)
		o.FrameTimeout, o.MaxMessageBytes = time.Duration(m.FrameTimeout), int(m.MaxMessageBytes)
		o.IdentifyWindow, o.ReplyBytesPerToken = int(m.IdentifyWindow), int(m.ReplyBytesPerToken)
		o.Refusal.DenyRetries = !m.Refusal.AllowRetries
		o.Refusal.WaitAnnounced = time.Duration(m.Refusal.WaitAnnounced)
		o.Refusal.WaitSilent = time.Duration(m.Refusal.WaitSilent)
		o.TestCommands = m.TestCommands
	}
	s, err := mongogate.New(g, o)
	if err != nil {
		return nil, err
	}
	w := &wireServer{Server: ingress.NewServer(in.Name, s, porch), keys: k, probe: s.Probe}
	w.details = func() any {
		return mongoDetails{Status: s.Status(), Establishment: mongogate.Establishment(w.Status())}
	}
	return w, nil
}

// mongoDetails are the counters of a MongoDB ingress under the names that
// serverStatus uses.
type mongoDetails struct {
	mongogate.Status

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

// newPulsar builds the server of a Pulsar ingress.
func (d *Daemon) newPulsar(in *config.Ingress, g *limiter.Gate) (server, error) {
	porch, k, err := d.porch(in)
	if err != nil {
		return nil, err
	}
	upstream, err := backendTLS(in)
	if err != nil {
		return nil, err
	}
	address := in.Backend
	if _, rest, ok := strings.Cut(address, "://"); ok {
		address = strings.TrimSuffix(rest, "/")
	}
	o := pulsargate.Options{
		Backend: address, TLS: upstream, By: pulsarBy(in.Partitions.By), Limits: pulsarLimits(in),
		Log: d.log, Observer: d.protocols.pulsar(in.Name),
	}
	if p := in.Pulsar; p != nil {
		o.Brokers, o.MaxMessageSize = p.Brokers, int(p.MaxMessageSize)
		o.ReceiptWait = time.Duration(p.ThrottleProducerReceiptWaitTimeMillis) * time.Millisecond
		o.MinPause = time.Duration(p.MinPause)
		if o.MinPause == 0 {
			o.MinPause = -1
		}
		o.DialTimeout, o.StallTimeout = time.Duration(p.DialTimeout), time.Duration(p.StallTimeout)
		switch p.Method {
		case "hold":
			o.Method = pulsargate.Hold
		case "pause":
			o.Method = pulsargate.Pause
		}
	}
	s, err := pulsargate.New(g, o)
	if err != nil {
		return nil, err
	}
	return &wireServer{
		Server: ingress.NewServer(in.Name, s, porch), keys: k, details: func() any { return s.Status() },
		apply: func(in *config.Ingress) { s.Apply(pulsarLimits(in)) },
		watch: func() (stop func()) { return d.protocols.queues.watch(in.Name, s) },
	}, nil
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

// pulsarLimits turns the configuration's publish rates into the gate's limits.
func pulsarLimits(in *config.Ingress) pulsargate.Limits {
	mode, _ := parseMode(in.Mode) // Policy has checked it
	l := pulsargate.Limits{Mode: mode}
	p := in.Pulsar
	if p == nil {
		return l
	}
	rate := func(messages float64, bytes config.Size, burst float64) pulsargate.PublishRate {
		return pulsargate.PublishRate{Messages: messages, Bytes: float64(bytes), BurstSeconds: burst}
	}
	l.Gate = rate(p.PublishRate.Messages, p.PublishRate.Bytes, p.PublishRate.BurstSeconds)
	l.Topic = rate(p.TopicPublishRate.Messages, p.TopicPublishRate.Bytes, p.TopicPublishRate.BurstSeconds)
	for _, t := range p.Topics {
		l.Topics = append(l.Topics, pulsargate.TopicLimit{
			Name: t.Name, Match: t.Match, PublishRate: rate(t.Messages, t.Bytes, t.BurstSeconds),
		})
	}
	for _, g := range p.ResourceGroups {
		l.Groups = append(l.Groups, pulsargate.GroupLimit{
			Name: g.Name, Match: g.Match, PublishRate: rate(g.Messages, g.Bytes, g.BurstSeconds),
		})
	}
	l.MaxPending, l.MaxHeldBytes, l.MaxGateHeldBytes = p.MaxPending, int(p.MaxHeldBytes), int(p.MaxGateHeldBytes)
	l.MaxProducers, l.MaxTopics = p.MaxProducers, p.MaxTopics
	return l
}

// rateOf returns the rate that a refusal by rate was due to, for the RateLimit
// headers: the partition's, or the gate's where the partition has none.
func rateOf(g *limiter.Gate) func(partition string) limiter.Rate {
	return func(partition string) limiter.Rate { return g.Rate(partition) }
}

// prefixes unwraps the configuration's prefixes.
func prefixes(list []config.Prefix) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, p := range list {
		out[i] = p.Prefix
	}
	return out
}

// orForever turns a configured bound of 0, none, into a very long one.
func orForever(d config.Duration) time.Duration {
	if d <= 0 {
		return forever
	}
	return time.Duration(d)
}
