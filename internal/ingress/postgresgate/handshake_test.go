package postgresgate_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/postgresgate"
	"github.com/admitd/admitd/internal/testkit/keypair"
	"github.com/admitd/admitd/limiter"
)

// counted is told of the connections that a door refuses.
type counted chan ingress.Refusal

func (counted) Opened()                     {}
func (counted) Closed()                     {}
func (c counted) Refused(w ingress.Refusal) { c <- w }

// TLS that fails is counted at the door, whichever way a client begins it: the door
// counted only the handshakes that it led itself, and this protocol leads its own.
func TestFailedHandshakesAreCounted(t *testing.T) {
	conf, _ := keypair.Ends(t, "gate")
	s, err := postgresgate.New(limiter.New("pg", policy(1, 0), limiter.Options{}), postgresgate.Options{Backends: []string{"127.0.0.1:1"}, TLS: conf})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(counted, 8)
	server := ingress.NewServer("pg", s, ingress.Options{Observer: seen})
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- server.Serve(ctx, ln) }()
	for name, start := range map[string][]byte{"asked for": wish, "begun at once": nil} {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if start != nil {
			say(c, start)
			expect(t, c, []byte("S"))
		}
		say(c, []byte("\x16not a hello, not at all"))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Logf("%s: %v", name, err) // reset, or closed
		}
		select { // it is counted before the connection is closed
		case why := <-seen:
			if why != ingress.BadHandshake {
				t.Errorf("%s: refused for %v, want %v", name, why, ingress.BadHandshake)
			}
		default:
			t.Errorf("%s: the door knows nothing of it", name)
		}
		_ = c.Close()
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// Who comes while no server can be reached is told so, and where else to go. The
// connection was closed without a word, and libpq stayed with the gate instead of
// trying the next host of its list.
func TestUnreachableServer(t *testing.T) {
	refused := func(context.Context, string) (net.Conn, error) { return nil, errors.New("connection refused") }
	synctest.Test(t, func(t *testing.T) {
		sc := stage(t, policy(1, 0), postgresgate.Options{Dial: refused})
		c, ended := sc.enter()
		say(c, hello("user", "app"))
		elsewhere(t, c)
		if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("read %d, %v; want the end", n, err)
		}
		<-ended
		if !sc.free() {
			t.Error("a permit is held")
		}
	})
}

// elsewhere reads the word that sends a client to another host.
func elsewhere(t *testing.T, c net.Conn) {
	t.Helper()
	if m, err := readMessage(c); err != nil || m[0] != 'E' || postgresgate.SQLState(m) != "57P03" {
		t.Errorf("read %q, %v; want an error 57P03", m, err)
	}
}
