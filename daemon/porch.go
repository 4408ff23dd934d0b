package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
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

// keysEvery is how often the certificate's files are looked at, at most.
const keysEvery = 5 * time.Second

// keys are the certificate and client authorities of an ingress. They are read
// anew when their files change, so that certificates can be renewed without a
// restart; files that cannot be read leave the old ones in force.
type keys struct {
	files  config.ServerTLS
	protos []string // that TLS offers to agree on; nil = none

	mu      sync.Mutex // guards the fields below
	current *tls.Config
	read    string    // state of the files when they were read
	looked  time.Time // when the files were last looked at
}

// keys reads the files of an ingress; nil without an error = plain TCP.
func (p *Protocol) keys(in *config.Ingress) (*keys, error) { return newKeys(in.TLS, p.ALPN) }

// newKeys reads the files of a listener that offers protos; nil without an error
// = plain TCP.
func newKeys(files config.ServerTLS, protos []string) (*keys, error) {
	if files.CertFile == "" {
		return nil, nil //nolint:nilnil // nil means no TLS, as documented
	}
	k := &keys{files: files, protos: protos}
	cfg, err := k.load()
	if err != nil {
		return nil, err
	}
	k.current, k.read, k.looked = cfg, k.state(), time.Now()
	return k, nil
}

// load reads the files.
func (k *keys) load() (*tls.Config, error) {
	cfg, err := ingress.LoadTLS(k.files.CertFile, k.files.KeyFile, k.files.ClientCAFile)
	if err != nil {
		return nil, err
	}
	cfg.NextProtos = k.protos
	return cfg, nil
}

// state tells whether a file was changed.
func (k *keys) state() string {
	var s strings.Builder
	for _, name := range []string{k.files.CertFile, k.files.KeyFile, k.files.ClientCAFile} {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprint(&s, info.ModTime().UnixNano(), info.Size(), ";")
		}
	}
	return s.String()
}

// take goes on with what was read into other, at a reload. Either may be nil.
func (k *keys) take(other *keys) {
	if k == nil || other == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.read, k.looked = other.current, other.read, other.looked
}

// config returns the TLS configuration of a listener.
func (k *keys) config() *tls.Config {
	first := k.current.Clone()
	first.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.fresh(), nil }
	return first
}

// fresh returns the configuration for one handshake.
func (k *keys) fresh() *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) < keysEvery {
		return k.current
	}
	k.looked = time.Now()
	if state := k.state(); state != k.read {
		if cfg, err := k.load(); err == nil {
			k.current, k.read = cfg, state
		}
	}
	return k.current
}

// readPool reads PEM certificates.
func readPool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("certificate authorities: no PEM certificate in %s", file)
	}
	return pool, nil
}
