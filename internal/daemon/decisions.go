package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/keys"
	"github.com/admitd/admitd/internal/daemon/protocol"
	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/internal/decide/envoy"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// counter is the daemon as those who ask for decisions see it. It implements
// [decide.Gates].
type counter struct {
	fronts *runningIngresses
	kit    *protocol.Kit

	mu    sync.Mutex             // guards the field below; held while one is built
	rules map[string]*identified // by ingress
}

// identified is how an ingress identifies requests that a proxy asks about.
type identified struct {
	in       *config.Ingress // that it was built for
	identify func(*http.Request) (limiter.Request, string)
}

// Admit implements [decide.Gates]. Callers spell operations as the configuration
// does.
func (c *counter) Admit(ctx context.Context, a *decide.Ask) (limiter.Permit, error) {
	f, in := c.fronts.front(a.Ingress), c.fronts.ingress(a.Ingress)
	if f == nil || in == nil {
		return limiter.Permit{}, decide.ErrUnknownIngress
	}
	var req limiter.Request
	if a.HTTP != nil {
		if identify := c.identifier(in, f.gate); identify != nil {
			var wrong string
			if req, wrong = identify(a.HTTP); wrong == "" {
				wrong = joined(in, a)
			}
			if wrong != "" && a.Partition == "" {
				return limiter.Permit{}, fmt.Errorf("%w: %s", decide.ErrUnacceptable, wrong)
			}
		}
	}
	req.Exempt = req.Exempt || slices.Contains(in.Requests.Exempt.Operations, a.Operation)
	if a.Partition != "" {
		req.Key = a.Partition
	}
	if a.Operation != "" || req.Cost == 0 {
		req.Cost = costOf(in, a.Operation)
	}
	if a.Cost > 0 {
		req.Cost = a.Cost
	}
	if a.MaxWait != 0 {
		req.MaxWait = a.MaxWait
	}
	setClass(in, a, &req)
	a.Partition, a.Cost = req.Key, req.Cost
	permit, err := f.gate.Admit(ctx, req)
	if board := c.fronts.crowd.Of(a.Ingress); a.Operation != "" && board.Due() {
		_, refused := errors.AsType[*limiter.Rejection](err)
		board.Saw(&topkeys.Asker{Operation: topkeys.Operation{Object: a.Operation}}, refused)
	}
	return permit, err
}

// joined refuses a header that makes the key and may have been sent twice, where the
// proxy tells the values of each header as one: the backend may see the other one.
func joined(in *config.Ingress, a *decide.Ask) (wrong string) {
	if !a.Joined {
		return ""
	}
	for _, by := range in.Partitions.By {
		name, ok := strings.CutPrefix(by, "header:")
		if ok && !strings.EqualFold(name, "User-Agent") && strings.Contains(a.HTTP.Header.Get(name), ",") {
			return "the header " + name + " holds a comma, and may have been sent twice; encode_raw_headers of the Envoy tells them apart"
		}
	}
	return ""
}

// setClass gives the request of who asks for a decision its class: the one it
// names, since who may ask may also say what a request costs, or that of the
// ingress's rules.
func setClass(in *config.Ingress, a *decide.Ask, req *limiter.Request) {
	classes := protocol.Classes(in)
	if classes == nil || a.Class == labels.Unclassed && a.HTTP != nil { // then it was identified
		return
	}
	req.Class = a.Class
	if a.Class == labels.Unclassed {
		req.Class, _ = classes.Of(&ingress.ClassFacts{Key: req.Key, Operation: func(rule int) bool {
			return slices.Contains(classes.Rules[rule].Operations, a.Operation)
		}})
	}
	req.Exempt = req.Exempt || req.Class == labels.ExemptClass
}

// costOf returns the tokens of an operation that names no price.
func costOf(in *config.Ingress, operation string) float64 {
	if tokens, ok := in.Cost.ByOperation[operation]; ok {
		return tokens
	}
	if in.Cost.Default > 0 {
		return in.Cost.Default
	}
	return 1
}

// identifier returns how the ingress identifies requests, nil when it cannot:
// its protocol is not HTTP.
func (c *counter) identifier(in *config.Ingress, g *limiter.Gate) func(*http.Request) (limiter.Request, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.rules[in.Name]; known != nil && known.in == in {
		return known.identify
	}
	next := &identified{in: in}
	if build := c.fronts.protocols[in.Protocol].Identify; build != nil {
		if identify, err := build(c.kit, in, g); err == nil {
			next.identify = identify
		} else {
			c.kit.Log.Error("requests of proxies cannot be identified", slog.String("ingress", in.Name), slog.Any("error", err))
		}
	}
	if c.rules == nil {
		c.rules = map[string]*identified{}
	}
	c.rules[in.Name] = next
	return next.identify
}

// Form implements [decide.Gates].
func (c *counter) Form(name, partition string) labels.HTTPForm {
	in, f := c.fronts.ingress(name), c.fronts.front(name)
	if in == nil || f == nil {
		return labels.HTTPForm{NoHints: true}
	}
	rate := f.gate.Rate(partition)
	return labels.HTTPForm{
		NoHints: !in.Rejection.Hints, Status: int(in.Rejection.Status),
		PerSecond: rate.PerSecond, BurstSeconds: rate.BurstSeconds,
	}
}

// Quota implements [envoy.Quotas]: of the rates of the key and of the ingress the
// smaller one. Where nothing is to be refused there is nothing to share either. Of
// a rate that several gates share this one gives away its even part: what Envoys
// use by themselves is not settled in the group.
func (c *counter) Quota(name, partition string) (q envoy.Quota, ok bool) {
	in, f := c.fronts.ingress(name), c.fronts.front(name)
	if in == nil || f == nil {
		return q, false
	}
	if in.Mode != limiter.Enforce.String() {
		return q, true
	}
	own, whole, blocked := f.gate.Rates(partition)
	own, whole = c.part(own), c.part(whole)
	q = envoy.Quota{Rate: own, Blocked: blocked}
	if !(own.PerSecond > 0) || whole.PerSecond > 0 && whole.PerSecond < own.PerSecond {
		q.Rate, q.Whole = whole, true
	}
	return q, true
}

// part is what this gate may give away of a rate.
func (c *counter) part(rate limiter.Rate) limiter.Rate {
	if gates := rate.Sharers; gates > 0 {
		if group := c.fronts.fleet.status(); group != nil {
			gates = max(group.Gates, 1)
		}
		rate.PerSecond /= float64(gates)
	}
	return rate
}

// decisions is the listener of those who ask; the zero value is none.
type decisions struct {
	server *decide.Server
	ln     net.Listener
}

// newDecisions builds the server and opens its address.
func (d *Daemon) newDecisions(ctx context.Context, cfg *config.Config) (out decisions, err error) {
	o := decide.Options{Insecure: cfg.Decisions.Insecure, Log: d.log, Ready: func() bool {
		h := d.view.Health()
		return h.Listening && !h.Draining
	}}
	if o.Token, err = readToken("decisions", cfg.Decisions.TokenFile); err != nil || cfg.Decisions.Listen == "" {
		return out, err
	}
	ring, err := keys.NewRing(cfg.Decisions.TLS, []string{"h2", "http/1.1"}, d.log)
	if err != nil {
		return out, fmt.Errorf("decisions.tls: %w", err)
	}
	if ring != nil {
		o.TLS = ring.Config()
	}
	d.metrics.WatchCertificate("decisions", ring.Expires)
	if out.ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Decisions.Listen); err != nil {
		return out, fmt.Errorf("decisions.listen: %w", err)
	}
	var server *decide.Server
	out.ln = d.bounded(out.ln, "decisions", 2, false, func() bool { return server.CloseIdle() })
	services := envoy.New(d.decider, envoy.Options{Quotas: d.counter, Ready: o.Ready})
	o.GRPC, o.Stopping = services, services.Close
	server = decide.NewServer(d.decider, o)
	out.server = server
	return out, nil
}

// setToken replaces the token; see [decide.Server.SetToken].
func (l decisions) setToken(token string) error {
	if l.server == nil {
		return nil
	}
	return l.server.SetToken(token)
}

// run serves until ctx is done.
func (l decisions) run(ctx context.Context) error {
	if l.server == nil {
		<-ctx.Done()
		return nil
	}
	return l.server.Serve(ctx, l.ln)
}

// close gives up a listener that nobody serves.
func (l decisions) close() {
	if l.ln != nil {
		_ = l.ln.Close()
	}
}

// address returns where it listens, "" when nobody does.
func (l decisions) address() string {
	if l.ln == nil {
		return ""
	}
	return l.ln.Addr().String()
}

// readTokens reads the tokens of the admin port and of the decisions listener.
func readTokens(cfg *config.Config) (port, decisions string, err error) {
	port, err = readToken("admin", cfg.Admin.TokenFile)
	if wrong := admin.CheckTokens(port); wrong != nil {
		err = fmt.Errorf("admin.tokenFile: %w (%s)", wrong, cfg.Admin.TokenFile)
	}
	decisions, err2 := readToken("decisions", cfg.Decisions.TokenFile)
	return port, decisions, errors.Join(err, err2)
}

// readToken returns the token of a section; "" = none is asked for.
func readToken(section, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("%s.tokenFile: %w", section, err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("%s.tokenFile: holds no token (%s)", section, file)
	}
	return token, nil
}

// askedCollector tells metrics what the decision API decided.
type askedCollector struct{ decider *decide.Decider }

//nolint:gochecknoglobals // constants
var (
	askedDecisions = prometheus.NewDesc("admitd_decisions_total", "Decisions for those who ask.", []string{"via", "decision"}, nil)
	askedPermits   = prometheus.NewDesc("admitd_decision_permits", "Permits that are held for those who ask.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (askedCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- askedDecisions
	ch <- askedPermits
}

// Collect implements [prometheus.Collector].
func (c askedCollector) Collect(ch chan<- prometheus.Metric) {
	for _, via := range decide.Ways() {
		admitted, refused := c.decider.Counts(via)
		ch <- prometheus.MustNewConstMetric(askedDecisions, prometheus.CounterValue, float64(admitted), via.String(), "admitted")
		ch <- prometheus.MustNewConstMetric(askedDecisions, prometheus.CounterValue, float64(refused), via.String(), "refused")
	}
	ch <- prometheus.MustNewConstMetric(askedPermits, prometheus.GaugeValue, float64(c.decider.Held()))
}
