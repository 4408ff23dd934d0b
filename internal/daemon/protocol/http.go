package protocol

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/keys"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// protocolHTTP is what the daemon knows of HTTP.
func protocolHTTP() *Protocol {
	p := &Protocol{Name: "http", ALPN: []string{"h2", "http/1.1"}, Shown: httpShown, Relistens: httpRelistens, MaxKey: httpgate.MaxKey}
	p.Open = func(k *Kit) (func(*config.Ingress, *limiter.Gate) (*Server, error), error) {
		return func(in *config.Ingress, g *limiter.Gate) (*Server, error) { return p.newHTTP(k, in, g) }, nil
	}
	p.Identify = func(k *Kit, in *config.Ingress, g *limiter.Gate) (func(*http.Request) (limiter.Request, string), error) {
		o, err := p.httpOptions(k, in, g)
		if err != nil {
			return nil, err
		}
		return httpgate.Identifier(o)
	}
	return p
}

// named returns the keys that the named partitions of an ingress serve.
func named(in *config.Ingress) (keys []string) {
	for _, n := range in.Partitions.Named {
		keys = append(keys, cmp.Or(n.Match, n.Name))
	}
	return keys
}

// httpShown returns a key as the status shows it.
func httpShown(in *config.Ingress, key string) string {
	return httpgate.ShownKey(&httpgate.Options{By: in.Partitions.By, Named: named(in)}, key)
}

// httpRelistens reports whether a change concerns what a listener is served by.
func httpRelistens(old, next *config.Ingress) bool {
	heads := func(in *config.Ingress) (bytes config.Size, header, idle config.Duration) {
		if h := in.HTTP; h != nil {
			header, idle = h.HeaderTimeout, h.IdleTimeout
		}
		return in.MaxHeaderBytes, header, idle
	}
	oldBytes, oldHeader, oldIdle := heads(old)
	bytes, header, idle := heads(next)
	return (old.TLS.CertFile == "") != (next.TLS.CertFile == "") || bytes != oldBytes || header != oldHeader || idle != oldIdle
}

// newHTTP builds the server of an HTTP ingress.
func (p *Protocol) newHTTP(k *Kit, in *config.Ingress, g *limiter.Gate) (*Server, error) {
	o, err := p.httpOptions(k, in, g)
	if err != nil {
		return nil, err
	}
	s, err := httpgate.New(g, o)
	if err != nil {
		return nil, err
	}
	return &Server{
		Serve: s.Serve, Drain: s.Retire,
		Backends:    func() []ingress.BackendStatus { return s.Status().Backends },
		Connections: func() ingress.Status { return s.Status().Connections },
		Details:     func() any { return httpDetails(s.Status()) },
		Set:         func(in *config.Ingress) { s.Limit(connections(&in.Connections)) },
		Prepare: func(in *config.Ingress) (Change, error) {
			next, err := p.httpOptions(k, in, g)
			if err != nil {
				return Change{}, err
			}
			if _, err := httpgate.New(g, next); err != nil {
				return Change{}, err
			}
			return Change{Apply: func() {
				if err := s.Apply(next); err != nil { // New took the same options
					k.Log.Error("ingress keeps its old settings", slog.String("ingress", in.Name), slog.Any("error", err))
				}
			}}, nil
		},
	}, nil
}

// httpOptions turns an ingress of the configuration into the gate's options.
func (p *Protocol) httpOptions(k *Kit, in *config.Ingress, g *limiter.Gate) (httpgate.Options, error) {
	serverOptions, _, err := p.serverOptions(k, in)
	if err != nil {
		return httpgate.Options{}, err
	}
	upstream, err := keys.Backend(in)
	if err != nil {
		return httpgate.Options{}, err
	}
	o := httpgate.Options{
		Backend: in.Backend, BackendTLS: upstream, By: in.Partitions.By,
		Exempt: httpgate.Exempt{
			CIDRs: prefixes(in.Requests.Exempt.CIDRs), Applications: in.Requests.Exempt.Applications,
			Operations: in.Requests.Exempt.Operations,
		},
		CostHeader: in.Cost.Header, DefaultCost: in.Cost.Default, Status: int(in.Rejection.Status), NoHints: !in.Rejection.Hints,
		Classes: Classes(in),
		Rate:    rateOf(g), CancelAbandoned: in.Abandon == "cancel",
		RequestTimeout: orForever(in.BackendTimeout), MaxHeader: int(in.MaxHeaderBytes), MaxBody: int64(in.MaxBodyBytes),
		Observer: k.HTTPObserver(in.Name), TopKeys: k.TopKeys(in.Name), Own: k.Own(in.Name),
		Ingress: serverOptions,
	}
	if o.MaxBody == 0 {
		o.MaxBody = httpgate.Unbounded
	}
	if in.HTTP == nil || in.HTTP.Hello != "off" {
		o.Hello = labels.ServeHello(func() (labels.Hello, bool) { return k.Hello(in.Name) })
	}
	o.Named = named(in)
	for op, tokens := range in.Cost.ByOperation {
		o.Costs = append(o.Costs, httpgate.Cost{Operation: op, Tokens: tokens})
	}
	if h := in.HTTP; h != nil {
		o.ConnectTimeout, o.HeaderTimeout = time.Duration(h.ConnectTimeout), time.Duration(h.HeaderTimeout)
		o.StreamIdle, o.IdleTimeout = time.Duration(h.StreamIdle), time.Duration(h.IdleTimeout)
		o.BodyGrace, o.MinBodyRate = time.Duration(h.BodyGrace), int(h.MinBodyRate)
		if o.MinBodyRate == 0 {
			o.MinBodyRate = httpgate.AnyRate
		}
		o.OverloadStatus = h.OverloadStatus
		o.MaxIdle, o.Via, o.TrustForwarded, o.HoldStreams, o.Timing = h.MaxIdle, h.Via, h.TrustForwarded, h.HoldStreams, h.Timing
	}
	return o, nil
}

// httpDetails are an HTTP ingress's own facts.
func httpDetails(st httpgate.Status) any {
	return map[string]any{
		"tunnels": st.Tunnels, "backendIdle": st.BackendIdle, "backendDials": st.BackendDials, "retries": st.Retries,
	}
}

// rateOf returns the rate that a refusal by rate was due to, for the RateLimit
// headers: the partition's, or the gate's where the partition has none.
func rateOf(g *limiter.Gate) func(partition string) limiter.Rate {
	return func(partition string) limiter.Rate { return g.Rate(partition) }
}
