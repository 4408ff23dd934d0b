package protocol

import (
	"crypto/tls"
	"net/netip"
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/keys"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/limiter"
)

// forever stands for "no bound" where a zero means a default.
const forever = 24 * time.Hour

// porch returns what every protocol's server needs to know of connections. own is
// the TLS towards clients of a protocol that begins it itself; nil = plain TCP.
func (p *Protocol) serverOptions(k *Kit, in *config.Ingress) (o ingress.Options, own *tls.Config, err error) {
	o = ingress.Options{
		Connections: connections(&in.Connections), ProxyProtocol: in.ProxyProtocol, ProxyFrom: prefixes(in.ProxyProtocolFrom),
		Clock: k.Clock, Log: k.Log, Descriptors: k.Descriptors, Counts: k.counts(in.Name), DrainTimeout: DrainTimeout(in),
	}
	ring, err := keys.NewRing(in.TLS, p.ALPN, k.Log)
	o.Expires = ring.Expires
	switch {
	case err != nil || ring == nil:
	case p.BeginsTLS:
		own = ring.Config()
	default:
		o.TLS = ring.Config()
	}
	return o, own, err
}

// DrainTimeout returns how long the ingress's connections may take to finish.
func DrainTimeout(in *config.Ingress) time.Duration {
	return max(time.Duration(in.DrainTimeout), time.Millisecond)
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

// connections turns the configuration's connection limits into the door's.
func connections(c *config.Connections) ingress.Connections {
	out := ingress.Connections{
		Rate:    limiter.Rate{PerSecond: c.Rate, BurstSeconds: c.BurstSeconds, QueueDepth: c.QueueDepth},
		MaxOpen: c.MaxOpen, Reserved: c.Reserved,
	}
	if c.Shared && c.Rate > 0 {
		out.Rate.Sharers = 1 // the group tells how many
	}
	for _, p := range c.Exempt {
		out.Exempt = append(out.Exempt, p.Prefix)
	}
	return out
}
