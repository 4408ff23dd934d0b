package protocol

import (
	"crypto/tls"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/keys"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/postgresgate"
	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
	"github.com/admitd/admitd/internal/tuner/sqlsource"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// protocolPostgres is what the daemon knows of PostgreSQL.
func protocolPostgres() *Protocol {
	p := &Protocol{Name: "postgres", ALPN: []string{"postgresql"}, BeginsTLS: true}
	p.Open = func(k *Kit) (func(*config.Ingress, *limiter.Gate) (*Server, error), error) {
		c := newPostgresCollector()
		return func(in *config.Ingress, g *limiter.Gate) (*Server, error) { return p.newPostgres(k, in, g, c) }, k.Register(c)
	}
	return p
}

// newPostgres builds the server of a PostgreSQL ingress.
func (p *Protocol) newPostgres(k *Kit, in *config.Ingress, g *limiter.Gate, c *postgresCollector) (*Server, error) {
	var s *postgresgate.Server
	options := func(in *config.Ingress, own *tls.Config) (postgresgate.Options, error) {
		o, err := postgresOptions(in)
		o.Log, o.TopKeys, o.TLS = k.Log, k.TopKeys(in.Name), own
		o.Counts = k.counts(in.Name)
		return o, err
	}
	w, err := p.Wire(k, in, func(own *tls.Config) (ingress.Handler, error) {
		o, err := options(in, own)
		if err == nil {
			s, err = postgresgate.New(g, o)
		}
		return s, err
	}, func(in *config.Ingress, own *tls.Config) (Change, error) {
		o, err := options(in, own)
		if err != nil {
			return Change{}, err
		}
		apply, err := s.Prepare(o)
		return Change{Apply: apply}, err
	})
	if err != nil {
		return nil, err
	}
	w.Backends = func() []ingress.BackendStatus { return s.Backends() }
	w.Ungated = func() int64 { return s.Status().OpaqueOpen }
	w.Details = func() any { return s.Status() }
	w.Watch = func() (stop func()) { return c.watch(in.Name, s) }
	return w, nil
}

// postgresOptions turns an ingress of the configuration into the gate's options.
func postgresOptions(in *config.Ingress) (postgresgate.Options, error) {
	upstream, err := keys.Backend(in)
	if err != nil {
		return postgresgate.Options{}, err
	}
	o := postgresgate.Options{
		Backends: []string{in.Backend}, BackendTLS: upstream, PartitionBy: in.Partitions.By, Classes: Classes(in), Costs: postgresCosts(&in.Cost),
		Exempt: postgresgate.Exemptions{
			Clients: prefixes(in.Requests.Exempt.CIDRs), Applications: in.Requests.Exempt.Applications,
			Operations: in.Requests.Exempt.Operations,
		},
		NoHints: !in.Rejection.Hints, CancelAbandoned: in.Abandon == "cancel",
	}
	if c := in.Postgres; c != nil {
		o.Backends = append(o.Backends, c.MoreBackends...)
		o.DialTimeout, o.HandshakeTimeout = time.Duration(c.DialTimeout), time.Duration(c.HandshakeTimeout)
		o.FrameTimeout = time.Duration(c.FrameTimeout)
		o.PerStatement, o.IdleInTransaction = c.Unit == "statement", idlePolicies()[c.IdleInTransaction]
		o.PassTLS = c.PassTLS
		if a := &c.Activity; a.User != "" {
			login := sqlsource.Login{User: a.User, Database: a.Database, PasswordFile: a.PasswordFile, TLS: upstream}
			o.Activity = func(address string) postgresgate.Activity { return sqlsource.NewActivity(address, login) }
		}
		o.GateSuperusers, o.Exempt.Users = c.GateSuperusers, c.ExemptUsers
		o.SQLStates = map[labels.Reason]string{}
		for reason, code := range c.SQLState {
			o.SQLStates[labels.Reason(reason)] = code
		}
	}
	return o, nil
}

// idlePolicies are the words for them.
func idlePolicies() map[string]postgresgate.IdlePolicy {
	return map[string]postgresgate.IdlePolicy{
		"auto": postgresgate.IdleAuto, "release": postgresgate.IdleRelease, "keep": postgresgate.IdleKeep,
	}
}

// postgresCosts gives the operations that the configuration does not name the
// default cost.
func postgresCosts(c *config.Cost) map[string]float64 {
	costs := map[string]float64{}
	for _, op := range sqltext.Operations() {
		costs[op] = c.Default
		if own, ok := c.ByOperation[op]; ok {
			costs[op] = own
		}
	}
	return costs
}

// postgresCollector reads what PostgreSQL gates know when somebody scrapes.
// Operations are a closed set.
type postgresCollector struct {
	watched[*postgresgate.Server]

	units, refused, opaque, open, suspended, failed *prometheus.Desc
}

func newPostgresCollector() *postgresCollector {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("admitd_postgres_"+name, help, append([]string{"ingress"}, more...), nil)
	}
	return &postgresCollector{
		units:     desc("units_total", "Units of work that were decided about outside a transaction, by what they do.", "operation"),
		refused:   desc("units_refused_total", "Units of work that were refused, by what they do.", "operation"),
		opaque:    desc("opaque_connections_total", "Connections whose encryption ends at the backend, so that their work could not be admitted."),
		open:      desc("transactions_open", "Sessions that have a transaction open."),
		suspended: desc("sessions_suspended", "Sessions whose statement waits for a lock, or has lasted much longer than usual, and which hold no permit meanwhile."),
		failed:    desc("activity_errors_total", "Questions to servers, which sessions wait for a lock, that failed."),
	}
}

// Describe implements [prometheus.Collector].
func (c *postgresCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.units, c.refused, c.opaque, c.open, c.suspended, c.failed} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *postgresCollector) Collect(ch chan<- prometheus.Metric) {
	for ingress, server := range c.byIngress() {
		s := server.Status()
		emit := func(d *prometheus.Desc, kind prometheus.ValueType, v int64, more ...string) {
			ch <- prometheus.MustNewConstMetric(d, kind, float64(v), append([]string{ingress}, more...)...) //nolint:promlinter // cannot follow d; the running daemon is linted in a test
		}
		emit(c.opaque, prometheus.CounterValue, s.Opaque)
		emit(c.open, prometheus.GaugeValue, s.InTransaction)
		emit(c.suspended, prometheus.GaugeValue, s.Suspended)
		emit(c.failed, prometheus.CounterValue, s.ActivityErrors)
		for name, of := range s.Operations {
			emit(c.units, prometheus.CounterValue, of.Decided, name)
			emit(c.refused, prometheus.CounterValue, of.Refused, name)
		}
	}
}
