package keys_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/keys"
	"github.com/admitd/admitd/internal/testkit/keypair"
)

// shown is the certificate that a listener shows now.
func shown(t *testing.T, listener *tls.Config) []byte {
	t.Helper()
	cfg, err := listener.GetConfigForClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Certificates[0].Certificate[0]
}

// put copies a pair over another, as a renewal does.
func put(t *testing.T, to config.ServerTLS, certFile, keyFile string) {
	t.Helper()
	for target, source := range map[string]string{to.CertFile: certFile, to.KeyFile: keyFile} {
		b, err := os.ReadFile(source)
		if err == nil {
			err = os.WriteFile(target, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A listener shows the certificate that its files hold, which are looked at every five
// seconds; files that cannot be read leave the old one in force, until they can.
func TestRingFollowsItsFiles(t *testing.T) {
	cert, key := keypair.Files(t, "gate")
	nextCert, nextKey := keypair.Files(t, "gate", "a.longer.name.of.the.same.gate")
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		files := config.ServerTLS{CertFile: cert, KeyFile: key}
		r, err := keys.NewRing(files, []string{"h2"}, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			t.Fatal(err)
		}
		listener := r.Config()
		if got := listener.NextProtos; len(got) != 1 || got[0] != "h2" {
			t.Errorf("offers %q; want h2", got)
		}
		first := shown(t, listener)
		put(t, files, nextCert, nextKey)
		time.Sleep(5*time.Second - 1)
		if !bytes.Equal(shown(t, listener), first) {
			t.Error("the files were looked at before five seconds had passed")
		}
		time.Sleep(time.Nanosecond)
		second := shown(t, listener)
		if bytes.Equal(second, first) {
			t.Error("the old certificate is shown five seconds after it was renewed")
		}
		if leaf, err := x509.ParseCertificate(second); err != nil || !r.Expires().Equal(leaf.NotAfter) {
			t.Errorf("expires %v; want %v, as the one that is shown (%v)", r.Expires(), leaf.NotAfter, err)
		}
		if err := os.WriteFile(files.CertFile, []byte("half of a certificate"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !bytes.Equal(shown(t, listener), second) {
			t.Error("a file that cannot be read took the certificate away")
		}
		time.Sleep(time.Minute)
		shown(t, listener)
		// Nobody was told that a renewal had failed, until the old certificate was over.
		if got := said.String(); strings.Count(got, "certificate was read anew") != 1 || strings.Count(got, "cannot be read anew") != 1 || !strings.Contains(got, cert) {
			t.Errorf("log: %s; want one renewal and one failure", got)
		}
		put(t, files, nextCert, nextKey)
		time.Sleep(time.Minute)
		if !bytes.Equal(shown(t, listener), second) {
			t.Error("the certificate is not back")
		}
	})
}

// Without files there is plain TCP, and files that are named must be there.
func TestRingWithoutFiles(t *testing.T) {
	if r, err := keys.NewRing(config.ServerTLS{}, nil, nil); r != nil || err != nil {
		t.Errorf("without files: %v, %v; want plain TCP", r, err)
	}
	if _, err := keys.NewRing(config.ServerTLS{CertFile: "/nowhere", KeyFile: "/nowhere"}, nil, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
}

// A backend is dialled over TLS when that is asked for, or its address says so, and as
// the files say.
func TestBackend(t *testing.T) {
	cert, key := keypair.Files(t, "gate")
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		in     config.Ingress
		secure bool
		want   string // in the error
	}{
		"plain":          {in: config.Ingress{Backend: "http://h:1"}},
		"https":          {in: config.Ingress{Backend: "https://h:1"}, secure: true},
		"pulsar+ssl":     {in: config.Ingress{Backend: "pulsar+ssl://h:1"}, secure: true},
		"asked for":      {in: config.Ingress{Backend: "h:1", BackendTLS: config.ClientTLS{Enabled: true, ServerName: "db", CAFile: cert, CertFile: cert, KeyFile: key}}, secure: true},
		"not believed":   {in: config.Ingress{Backend: "h:1", BackendTLS: config.ClientTLS{Enabled: true, InsecureSkipVerify: true}}, secure: true},
		"off":            {in: config.Ingress{Backend: "h:1", BackendTLS: config.ClientTLS{CAFile: "/nowhere"}}},
		"no authorities": {in: config.Ingress{Backend: "https://h:1", BackendTLS: config.ClientTLS{CAFile: "/nowhere"}}, want: "certificate authorities: open /nowhere"},
		"empty ones":     {in: config.Ingress{Backend: "https://h:1", BackendTLS: config.ClientTLS{CAFile: garbage}}, want: "no PEM certificate in " + garbage},
		"no certificate": {in: config.Ingress{Backend: "https://h:1", BackendTLS: config.ClientTLS{CertFile: garbage, KeyFile: key}}, want: "backend certificate: "},
	} {
		got, err := keys.Backend(&tc.in)
		switch {
		case tc.want != "":
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v; want %s", name, err, tc.want)
			}
		case err != nil || (got != nil) != tc.secure:
			t.Errorf("%s: %v, %v; want TLS: %v", name, got, err, tc.secure)
		case got != nil:
			b := tc.in.BackendTLS
			if got.ServerName != b.ServerName || got.InsecureSkipVerify != b.InsecureSkipVerify || (got.RootCAs != nil) != (b.CAFile != "") ||
				(len(got.Certificates) == 1) != (b.CertFile != "") || got.MinVersion != tls.VersionTLS12 {
				t.Errorf("%s: %+v; want what %+v says", name, got, b)
			}
		}
	}
}

// The gate's own certificate for Redis is read at every connect, and once at the start,
// so that a faulty file is told then.
func TestFleet(t *testing.T) {
	cert, key := keypair.Files(t, "gate")
	next, nextKey := keypair.Files(t, "gate", "renewed")
	if got, err := keys.Fleet(&config.FleetTLS{CAFile: "/nowhere"}); got != nil || err != nil {
		t.Errorf("not enabled: %v, %v; want plain TCP", got, err)
	}
	conf := config.FleetTLS{Enabled: true, ServerName: "redis", CAFile: cert, CertFile: cert, KeyFile: key}
	got, err := keys.Fleet(&conf)
	if err != nil || got.ServerName != "redis" || got.RootCAs == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	own := func() []byte {
		c, err := got.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Certificate[0]
	}
	before := own()
	put(t, config.ServerTLS{CertFile: cert, KeyFile: key}, next, nextKey)
	if bytes.Equal(own(), before) {
		t.Error("the old certificate is shown after it was renewed")
	}
	for what, bad := range map[string]config.FleetTLS{
		"authorities": {Enabled: true, CAFile: "/nowhere"}, "certificate": {Enabled: true, CertFile: "/nowhere", KeyFile: key},
	} {
		if _, err := keys.Fleet(&bad); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s that are not there: %v", what, err)
		}
	}
	if plain, err := keys.Fleet(&config.FleetTLS{Enabled: true}); err != nil || plain.GetClientCertificate != nil {
		t.Errorf("without a certificate of its own: %+v, %v", plain, err)
	}
}
