// Package keys reads certificates and authorities from their files: for
// listeners as a [Ring] that follows its files, for those who dial as they are
// when they are read.
package keys

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/ingress"
)

// keysEvery is how often the certificate's files are looked at, at most.
const keysEvery = 5 * time.Second

// Ring are the certificate and client authorities of a listener. They are read
// anew when their files change, so that certificates can be renewed without a
// restart; files that cannot be read leave the old ones in force.
type Ring struct {
	files  config.ServerTLS
	protos []string     // that TLS offers to agree on; nil = none
	log    *slog.Logger // is told of files that were read anew; nil = nobody

	mu      sync.Mutex // guards the fields below
	current *tls.Config
	read    string    // state of the files when they were read
	tried   string    // state of the files when they could not be read
	looked  time.Time // when the files were last looked at
}

// NewRing reads the files of a listener that offers protos; nil without an error
// = plain TCP. log is told of files that change later, and may be nil.
func NewRing(files config.ServerTLS, protos []string, log *slog.Logger) (*Ring, error) {
	if files.CertFile == "" {
		return nil, nil //nolint:nilnil // nil means no TLS, as documented
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Ring{files: files, protos: protos, log: log}
	r.read, r.looked = r.state(), time.Now() // before they are read: what changes meanwhile is found later
	var err error
	if r.current, err = r.load(); err != nil {
		return nil, err
	}
	return r, nil
}

// load reads the files.
func (r *Ring) load() (*tls.Config, error) {
	cfg, err := ingress.LoadTLS(r.files.CertFile, r.files.KeyFile, r.files.ClientCAFile)
	if err != nil {
		return nil, err
	}
	cfg.NextProtos = r.protos
	return cfg, nil
}

// state tells whether a file was changed.
func (r *Ring) state() string {
	var s strings.Builder
	for _, name := range []string{r.files.CertFile, r.files.KeyFile, r.files.ClientCAFile} {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprint(&s, info.ModTime().UnixNano(), info.Size(), ";")
		}
	}
	return s.String()
}

// Config returns the TLS configuration of a listener.
func (r *Ring) Config() *tls.Config {
	first := r.current.Clone()
	first.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.fresh(), nil }
	return first
}

// Expires returns when the certificate that is served ceases to be valid; the zero time
// without one.
func (r *Ring) Expires() time.Time {
	if r == nil {
		return time.Time{}
	}
	cfg := r.fresh()
	if len(cfg.Certificates) == 0 || cfg.Certificates[0].Leaf == nil {
		return time.Time{}
	}
	return cfg.Certificates[0].Leaf.NotAfter
}

// fresh returns the configuration for one handshake.
func (r *Ring) fresh() *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) < keysEvery {
		return r.current
	}
	r.looked = time.Now()
	if state := r.state(); state != r.read {
		r.renew(state)
	}
	return r.current
}

// renew reads files that have changed. The lock is held.
func (r *Ring) renew(state string) {
	cfg, err := r.load()
	file := slog.String("cert_file", r.files.CertFile)
	switch {
	case err == nil:
		r.current, r.read = cfg, state
		r.log.Info("certificate was read anew", file)
	case state != r.tried: // else it was said
		r.tried = state
		r.log.Warn("certificate cannot be read anew, the old one stays", file, slog.Any("error", err))
	}
}

// pool reads PEM certificates.
func pool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("certificate authorities: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("certificate authorities: no PEM certificate in %s", file)
	}
	return roots, nil
}

// Backend returns how the backend of an ingress is dialled; nil without an error =
// plain TCP. The error names the file that is missing or holds no certificate.
func Backend(in *config.Ingress) (*tls.Config, error) {
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
		roots, err := pool(t.CAFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = roots
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

// Fleet returns how Redis is dialled; nil = plain TCP. The gate's own
// certificate is read at every connect.
func Fleet(t *config.FleetTLS) (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil //nolint:nilnil // nil means no TLS, as documented
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	var err error
	if t.CAFile != "" {
		if cfg.RootCAs, err = pool(t.CAFile); err != nil {
			return nil, err
		}
	}
	if t.CertFile == "" {
		return cfg, nil
	}
	own := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
		return &cert, nil
	}
	if _, err = own(nil); err != nil {
		return nil, err
	}
	cfg.GetClientCertificate = own
	return cfg, nil
}
