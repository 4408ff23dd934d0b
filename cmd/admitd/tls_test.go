package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

// newAuthority makes one and writes its certificate to file.
func newAuthority(t *testing.T, file string) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	a.cert, a.key = a.issue(t, 1, file, "")
	a.pool.AddCert(a.cert)
	return a
}

// issue writes a certificate and, unless keyFile is empty, its key. Without an
// authority it signs itself.
func (a *authority) issue(t *testing.T, serial int64, certFile, keyFile string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: fmt.Sprint("test ", serial)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"gate.test"},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        a.cert == nil, BasicConstraintsValid: true,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = form, key
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", der)
	if keyFile != "" {
		b, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, keyFile, "PRIVATE KEY", b)
	}
	return cert, key
}

// writePEM replaces a file.
func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serial makes a request and returns the certificate's serial number and the
// protocol that was agreed on.
func (a *authority) serial(t *testing.T, address string, own ...tls.Certificate) (serial int64, protocol string, err error) {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: a.pool, ServerName: "gate.test", Certificates: own}, ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + address)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("status %d over TLS; want 200", res.StatusCode)
	}
	return res.TLS.PeerCertificates[0].SerialNumber.Int64(), res.Proto, nil
}

// A gate speaks TLS and HTTP/2, takes a renewed certificate at a reload without
// a restart, and asks for client certificates where it is told to.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	ca := newAuthority(t, in("ca.pem"))
	ca.issue(t, 2, in("cert.pem"), in("key.pem"))
	b := startBackend(t)
	configuration := fmt.Sprintf(orders, b.URL, "10s", 0) + fmt.Sprintf("    tls: { certFile: %q, keyFile: %q }\n", in("cert.pem"), in("key.pem"))
	p := startProcess(t, configuration)
	address := strings.TrimPrefix(p.url("orders"), "http://")
	if serial, protocol, err := ca.serial(t, address); err != nil || serial != 2 || protocol != "HTTP/2.0" {
		t.Fatalf("certificate %d over %s, %v; want 2 over HTTP/2.0", serial, protocol, err)
	}

	ca.issue(t, 3, in("cert.pem"), in("key.pem"))
	p.signal(syscall.SIGHUP)
	waitFor(t, "the renewed certificate", func() bool {
		serial, _, err := ca.serial(t, address)
		return err == nil && serial == 3
	})
	if n := p.count("ingress listens"); n != 1 {
		t.Errorf("the ingress began to listen %d times; want once", n)
	}

	// Half a renewal is refused, and the last good keys serve on.
	if err := os.WriteFile(in("key.pem"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.becomes("admitd_config_last_reload_successful", 0)
	if serial, _, err := ca.serial(t, address); err != nil || serial != 3 {
		t.Errorf("with broken files: certificate %d, %v; want 3", serial, err)
	}

	ca.issue(t, 4, in("cert.pem"), in("key.pem"))
	p.put(strings.Replace(configuration, "tls: {", fmt.Sprintf("tls: { clientCAFile: %q,", in("ca.pem")), 1))
	waitFor(t, "strangers to be turned away", func() bool { _, _, err := ca.serial(t, address); return err != nil })
	ca.issue(t, 5, in("own.pem"), in("own.key"))
	own, err := tls.LoadX509KeyPair(in("own.pem"), in("own.key"))
	if err != nil {
		t.Fatal(err)
	}
	if serial, _, err := ca.serial(t, address, own); err != nil || serial != 4 {
		t.Errorf("with a client certificate: %d, %v; want 4", serial, err)
	}
}
