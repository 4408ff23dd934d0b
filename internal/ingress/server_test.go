package ingress_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/testkit/keypair"
	"github.com/admitd/admitd/limiter"
)

// A panic ends its connection and no other.
func TestPanicIsIsolated(t *testing.T) {
	log := &safeBuffer{}
	_, addr := start(t, handlerFunc(func(ctx context.Context, c net.Conn) {
		one := make([]byte, 1)
		_, _ = io.ReadFull(c, one)
		if one[0] == '!' {
			panic("boom")
		}
		_, _ = c.Write(one)
		echo(ctx, c)
	}), ingress.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	good := dial(t, addr)
	if !answers(good) {
		t.Fatal("no answer before the panic")
	}
	bad := dial(t, addr)
	_, _ = bad.Write([]byte("!"))
	if _, err := bad.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("panicking connection: read = %v, want EOF", err)
	}
	if !answers(good) {
		t.Error("another connection died with the panic")
	}
	if !strings.Contains(log.String(), "boom") {
		t.Errorf("log %q does not tell of the panic", log.String())
	}
}

// A drain lets handlers finish, cuts those that do not, and refuses newcomers.
func TestDrain(t *testing.T) {
	t.Run("finishes", func(t *testing.T) {
		s, addr := start(t, handlerFunc(echo), ingress.Options{})
		c := dial(t, addr)
		if !answers(c) {
			t.Fatal("no answer")
		}
		if err := s.Drain(t.Context()); err != nil {
			t.Errorf("Drain = %v, want nil", err)
		}
		if _, err := net.Dial("tcp", addr); err == nil {
			t.Error("connected after the drain")
		}
	})
	t.Run("cuts", func(t *testing.T) {
		running := make(chan struct{})
		s, addr := start(t, handlerFunc(func(_ context.Context, c net.Conn) {
			close(running)
			_, _ = io.Copy(io.Discard, c) // does not listen to ctx
		}), ingress.Options{DrainTimeout: 20 * time.Millisecond})
		dial(t, addr)
		<-running
		if err := s.Drain(t.Context()); !errors.Is(err, ingress.ErrCut) {
			t.Errorf("Drain = %v, want ErrCut", err)
		}
	})
	t.Run("context at once", func(t *testing.T) {
		// The door has seen that the context is done, and ends the serving, before the
		// drain that the context begins has begun: it then never did.
		for range 3000 {
			ctx, cancel := context.WithCancel(t.Context())
			s := ingress.NewServer("test", handlerFunc(echo), ingress.Options{})
			ln := loopback(t)
			served := make(chan error, 1)
			go func() { served <- s.Serve(ctx, ln) }()
			cancel()
			select {
			case <-served:
			case <-time.After(20 * time.Second):
				t.Fatal("Serve goes on after its context ended")
			}
		}
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := ingress.NewServer("test", handlerFunc(echo), ingress.Options{})
		ln := loopback(t)
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, ln) }()
		c := dial(t, ln.Addr().String())
		if !answers(c) {
			t.Fatal("no answer")
		}
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve = %v after its context ended, want nil", err)
		}
		if s.Status().Open != 0 {
			t.Error("connection left open")
		}
	})
}

// The PROXY header gives the client's address, which exemptions are about; a
// connection without a header is refused.
func TestProxyProtocol(t *testing.T) {
	seen := newEvents()
	got := make(chan string, 8)
	_, addr := start(t, handlerFunc(func(ctx context.Context, c net.Conn) {
		got <- c.RemoteAddr().String()
		echo(ctx, c)
	}), ingress.Options{
		Observer: seen, ProxyProtocol: true,
		Connections: ingress.Connections{
			Rate:   limiter.Rate{PerSecond: 0.001},
			Exempt: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		},
	})
	for _, tc := range []struct {
		header  string
		client  string
		refusal ingress.Refusal
	}{
		{header: "PROXY TCP4 10.9.2.3 10.0.0.1 99 80\r\n", client: "10.9.2.3:99"}, // takes the only token
		{header: "PROXY TCP4 10.1.2.3 10.0.0.1 98 80\r\n", client: "10.1.2.3:98"}, // exempt
		{header: "PROXY TCP4 10.9.2.4 10.0.0.1 97 80\r\n", refusal: ingress.OverRate},
		{header: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", refusal: ingress.BadProxyHeader},
		{header: "PROXY TCP4 nonsense\r\n", refusal: ingress.BadProxyHeader},
	} {
		c := dial(t, addr)
		_, _ = io.WriteString(c, tc.header)
		if tc.client == "" {
			if why := <-seen.refused; why != tc.refusal {
				t.Errorf("%q: refused for %v, want %v", tc.header, why, tc.refusal)
			}
			continue
		}
		if client := <-got; client != tc.client {
			t.Errorf("%q: client = %s, want %s", tc.header, client, tc.client)
		}
		if !answers(c) {
			t.Errorf("%q: no answer", tc.header)
		}
	}
}

// With a client CA only clients with a certificate come in; a failed handshake
// is counted.
func TestClientCA(t *testing.T) {
	cert, key := keypair.Files(t, "localhost")
	cfg, err := ingress.LoadTLS(cert, key, cert)
	if err != nil {
		t.Fatal(err)
	}
	seen := newEvents()
	_, addr := start(t, handlerFunc(echo), ingress.Options{TLS: cfg, Observer: seen})
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	with := tls.Client(dial(t, addr), &tls.Config{RootCAs: pool, ServerName: "localhost", Certificates: []tls.Certificate{pair}})
	if !answers(with) {
		t.Error("client with a certificate gets no answer")
	}
	without := tls.Client(dial(t, addr), &tls.Config{RootCAs: pool, ServerName: "localhost"})
	if answers(without) {
		t.Error("client without a certificate gets an answer")
	}
	if why := <-seen.refused; why != ingress.BadHandshake {
		t.Errorf("refused for %v, want tls_handshake", why)
	}
	plain := dial(t, addr)
	_, _ = plain.Write([]byte("not a hello, not at all\r\n"))
	if why := <-seen.refused; why != ingress.BadHandshake {
		t.Errorf("refused for %v, want tls_handshake", why)
	}
}

// LoadTLS names the file that is wrong.
func TestLoadTLSErrors(t *testing.T) {
	cert, key := keypair.Files(t, "localhost")
	if _, err := ingress.LoadTLS(cert, "missing.pem", ""); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "missing.pem") {
		t.Errorf("missing key: %v", err)
	}
	if _, err := ingress.LoadTLS(cert, key, key); !errors.Is(err, ingress.ErrNoCertificates) {
		t.Errorf("CA without certificate: %v, want ErrNoCertificates", err)
	}
}
