package ingress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// ErrNoCertificates is returned by [LoadTLS] for a client CA file without a
// certificate in it.
var ErrNoCertificates = errors.New("ingress: no PEM certificate")

// LoadTLS reads a certificate chain and its key. With a clientCAFile every
// client must present a certificate that one of its authorities signed. TLS
// 1.2 is the oldest version spoken.
func LoadTLS(certFile, keyFile, clientCAFile string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("ingress: certificate %s and key %s: %w", certFile, keyFile, err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if clientCAFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(clientCAFile) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("ingress: client CA: %w", err)
	}
	cfg.ClientCAs = x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%w in client CA %s", ErrNoCertificates, clientCAFile)
	}
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	return cfg, nil
}

// Secure begins TLS with the client of c, within the time given. A client that does
// not come to an end with it is counted by the door that it came through, and c is
// closed.
func Secure(ctx context.Context, c net.Conn, conf *tls.Config, within time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	secured := tls.Server(c, conf)
	if err := secured.HandshakeContext(ctx); err != nil {
		from := c
		if p, ok := c.(*pushedBack); ok {
			from = p.Conn
		}
		if k, ok := from.(*conn); ok {
			k.door.Count(k, BadHandshake)
		}
		_ = c.Close()
		return nil, fmt.Errorf("ingress: TLS handshake: %w", err)
	}
	return secured, nil
}
