package daemon

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/ingress"
)

// forever stands for "no bound" where a zero means a default.
const forever = 24 * time.Hour

// porch returns what every protocol's server needs to know of connections, and
// the keys that its TLS serves from; nil = plain TCP.
func (p *Protocol) porch(k *Kit, in *config.Ingress) (ingress.Options, *keys, error) {
	o := ingress.Options{
		Connections: connections(&in.Connections), ProxyProtocol: in.ProxyProtocol, ProxyFrom: prefixes(in.ProxyProtocolFrom),
		Clock: k.Clock, Log: k.Log, DrainTimeout: drainTimeout(in),
	}
	keys, err := p.keys(in)
	if keys != nil && !p.BeginsTLS {
		o.TLS = keys.config()
	}
	return o, keys, err
}

// drainTimeout returns how long the ingress's connections may take to finish.
func drainTimeout(in *config.Ingress) time.Duration {
	return max(time.Duration(in.DrainTimeout), time.Millisecond)
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
