package postgresgate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
	"github.com/admitd/admitd/internal/testkit/keypair"
)

// wish is how clients and gates ask for TLS before anything else.
var wish = startupMessage(80877103, "")

// stageTLS is a gate with a certificate, whom its client trusts, and that client.
func stageTLS(t *testing.T) (sc *scene, trust *tls.Config, c net.Conn, ended <-chan struct{}) {
	t.Helper()
	server, trust := keypair.Ends(t, "gate")
	sc = stage(t, policy(1, 0), postgresgate.Options{TLS: server})
	c, ended = sc.enter()
	return sc, trust, c, ended
}

// comesIn begins a session over TLS, and works in it.
func comesIn(t *testing.T, sc *scene, secured net.Conn) {
	t.Helper()
	say(secured, hello())
	up := sc.backend()
	expect(t, up, hello())
	works(t, sc, secured, up)
}

// encrypted makes the test's end of a connection one of TLS.
func encrypted(t *testing.T, c net.Conn, conf *tls.Config) *tls.Conn {
	t.Helper()
	secured := tls.Client(c, conf)
	if err := secured.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return secured
}

// asked asks for TLS, and begins it.
func asked(t *testing.T, c net.Conn, conf *tls.Config) *tls.Conn {
	t.Helper()
	say(c, wish)
	expect(t, c, []byte("S"))
	return encrypted(t, c, conf)
}

// works logs in over c and has a query refused and another one served, which
// takes a gate that sees the session.
func works(t *testing.T, sc *scene, c, up net.Conn) {
	t.Helper()
	greeting := script(pg('R', "\x00\x00\x00\x00"), pg('K', "\x00\x00\x00\x01secr"), ready('I'))
	say(up, greeting)
	expect(t, c, greeting)
	p := sc.take()
	say(c, query("select 1"))
	if kinds, state := hear(t, c); kinds != "EZI" || state != "53000" {
		t.Errorf("heard %s %s; want EZI 53000", kinds, state)
	}
	p.End(0)
	say(c, query("select 2"))
	expect(t, up, query("select 2"))
	say(up, script(pg('C', "SELECT 1\x00"), ready('I')))
	hear(t, c)
}

// TLS ends in the gate, whichever way a client begins it.
func TestTLSEndsInTheGate(t *testing.T) {
	bubble(t, map[string]func(t *testing.T){
		"asked for": func(t *testing.T) {
			t.Helper()
			sc, client, c, _ := stageTLS(t)
			secured := asked(t, c, client)
			comesIn(t, sc, secured)
		},
		"begun at once": func(t *testing.T) {
			t.Helper()
			sc, client, c, _ := stageTLS(t)
			client.NextProtos = []string{"postgresql"}
			secured := encrypted(t, c, client)
			if got := secured.ConnectionState().NegotiatedProtocol; got != "postgresql" {
				t.Errorf("ALPN %q; want postgresql", got)
			}
			comesIn(t, sc, secured)
		},
		"for another protocol": func(t *testing.T) {
			t.Helper()
			_, client, c, ended := stageTLS(t)
			client.NextProtos = []string{"h2"}
			if err := tls.Client(c, client).HandshakeContext(t.Context()); err == nil {
				t.Error("a client of another protocol came in")
			}
			isOver(t, ended)
		},
		"and GSS does not": func(t *testing.T) {
			t.Helper()
			sc, client, c, _ := stageTLS(t)
			say(c, startupMessage(80877104, ""))
			expect(t, c, []byte("N"))
			secured := asked(t, c, client)
			comesIn(t, sc, secured)
		},
		"and nothing that came before it counts": func(t *testing.T) {
			t.Helper()
			_, _, c, ended := stageTLS(t)
			say(c, script(wish, hello()))
			expect(t, c, []byte("S"))
			isOver(t, ended) // a start-up message in the clear would be taken for one that TLS protects
		},
		"once": func(t *testing.T) {
			t.Helper()
			_, client, c, _ := stageTLS(t)
			secured := asked(t, c, client)
			say(secured, wish)
			expect(t, secured, []byte("N"))
		},
	})
}

// The gate begins TLS again towards the backend.
func TestBackendTLS(t *testing.T) {
	bubble(t, map[string]func(t *testing.T){
		"": func(t *testing.T) {
			t.Helper()
			gate, client := keypair.Ends(t, "gate")
			server, trust := keypair.Ends(t, "db") // the name comes from the address
			trust.ServerName = ""
			sc := stage(t, policy(1, 0), postgresgate.Options{TLS: gate, BackendTLS: trust})
			c, _ := sc.enter()
			secured := asked(t, c, client)
			say(secured, hello())
			up := sc.backend()
			expect(t, up, wish)
			say(up, []byte("S"))
			inner := tls.Server(up, server)
			expect(t, inner, hello())
			works(t, sc, secured, inner)
		},
		"a server without it": func(t *testing.T) {
			t.Helper()
			_, trust := keypair.Ends(t, "db")
			sc := stage(t, policy(1, 0), postgresgate.Options{BackendTLS: trust})
			c, ended := sc.enter()
			say(c, wish)
			expect(t, c, []byte("N"))
			say(c, hello())
			up := sc.backend()
			expect(t, up, wish)
			say(up, []byte("N"))
			elsewhere(t, c)
			isOver(t, ended)
			silent(t, up)
		},
		"a server that is somebody else": func(t *testing.T) {
			t.Helper()
			server, _ := keypair.Ends(t, "db")
			_, trust := keypair.Ends(t, "db")
			sc := stage(t, policy(1, 0), postgresgate.Options{BackendTLS: trust})
			c, ended := sc.enter()
			say(c, hello())
			up := sc.backend()
			expect(t, up, wish)
			say(up, []byte("S"))
			if err := tls.Server(up, server).HandshakeContext(t.Context()); err == nil {
				t.Error("the gate trusts a server that nobody vouches for")
			}
			elsewhere(t, c)
			isOver(t, ended)
		},
	})
}

// A server with TLS, as Debian's is, took every session of libpq's default mode
// out of the gate: ten statements ran at once where the limit was 1.
func TestTLSDoesNotPassUnasked(t *testing.T) {
	bubble(t, map[string]func(t *testing.T){
		"asked for": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, _ := sc.enter()
			for _, code := range []uint32{80877104, 80877103} {
				say(c, startupMessage(code, ""))
				expect(t, c, []byte("N"))
			}
			comesIn(t, sc, c)
		},
		"begun at once": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, ended := sc.enter()
			say(c, []byte("\x16\x03\x01\x00\x05hello"))
			isOver(t, ended)
		},
		"where the gate ends it": func(t *testing.T) {
			t.Helper()
			_, trust := keypair.Ends(t, "db")
			sc := stage(t, policy(1, 0), postgresgate.Options{BackendTLS: trust, PassTLS: true})
			c, _ := sc.enter()
			say(c, wish)
			expect(t, c, []byte("N"))
		},
	})
}

// TLS from end to end passes a gate that lets it.
func TestTLSPasses(t *testing.T) {
	for _, direct := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server, client := keypair.Ends(t, "db")
			sc := stage(t, policy(1, 0), postgresgate.Options{PassTLS: true})
			c, _ := sc.enter()
			if !direct {
				say(c, wish)
			}
			inner, served := net.Conn(nil), make(chan struct{})
			go func() {
				defer close(served)
				up := sc.backend()
				if !direct {
					_, _ = readStartup(up)
					_, _ = up.Write([]byte("S"))
				}
				t := tls.Server(up, server)
				_ = t.HandshakeContext(context.Background())
				inner = t
			}()
			if !direct {
				expect(t, c, []byte("S"))
			}
			secured := encrypted(t, c, client)
			<-served
			for _, text := range []string{string(hello()), string(query("select 1")), strings.Repeat("x", 100_000)} {
				say(secured, []byte(text))
				expect(t, inner, []byte(text))
				say(inner, []byte(text))
				expect(t, secured, []byte(text))
			}
			if got := sc.s.Status(); got.Opaque != 1 || sc.gate.Status().InFlight != 0 {
				t.Errorf("Status() = %+v; want 1 opaque and no permit", got)
			}
		})
	}
}

// Behind a gate that let TLS pass, libpq in its default mode did not go to the next
// host when the server was dead: the connection was closed without a word that it
// believes before TLS.
func TestTLSPassesToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := func(context.Context, string) (net.Conn, error) { return nil, errors.New("dead") }
		sc := stage(t, policy(1, 0), postgresgate.Options{PassTLS: true, Dial: dead})
		c, ended := sc.enter()
		say(c, wish)
		expect(t, c, []byte("N"))
		say(c, hello())
		elsewhere(t, c)
		isOver(t, ended)
	})
}

// A client without TLS took the server's offer of channel binding for an attack,
// and did not come in.
func TestChannelBindingIsNotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, trust := keypair.Ends(t, "db")
		sc := stage(t, policy(9, 0), postgresgate.Options{BackendTLS: trust})
		c, ended := sc.enter()
		say(c, hello())
		up := sc.backend()
		expect(t, up, wish)
		say(up, []byte("S"))
		inner := tls.Server(up, server)
		expect(t, inner, hello())
		say(inner, pg('R', "\x00\x00\x00\x0aSCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00"))
		expect(t, c, pg('R', "\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"))
		go func() { _, _ = io.Copy(io.Discard, up) }() // the end of TLS is told
		_ = c.Close()                                  // it kept the server's connection for 10 s
		isOver(t, ended)
	})
}

// SCRAM with channel binding cannot work through TLS that ends in the gate: the
// log says so, once.
func TestChannelBindingIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, client := keypair.Ends(t, "gate")
		server, trust := keypair.Ends(t, "db")
		var log bytes.Buffer
		sc := stage(t, policy(9, 0), postgresgate.Options{TLS: gate, BackendTLS: trust, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 3 {
			c, _ := sc.enter()
			secured := asked(t, c, client)
			say(secured, hello())
			up := sc.backend()
			expect(t, up, wish)
			say(up, []byte("S"))
			inner := tls.Server(up, server)
			expect(t, inner, hello())
			offer := pg('R', "\x00\x00\x00\x0aSCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00")
			say(inner, offer)
			expect(t, secured, offer)
		}
		if n := strings.Count(log.String(), "channel_binding=disable"); n != 1 {
			t.Errorf("told %d times; want once:\n%s", n, &log)
		}
	})
}
