package postgresgate_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/postgresgate"
)

// Every Ctrl-C in psql and every wrong password was told as a failure of the
// backend: a server answers a request to cancel by closing the connection, and
// closes it after it refused a login.
func TestServerEndsConnectionsAsItShould(t *testing.T) {
	for name, tc := range map[string]struct{ first, answer []byte }{
		"a request to cancel": {first: startupMessage(80877102, "\x00\x00\x00\x07secr")},
		"a refused login":     {first: hello("user", "bob"), answer: failure("28P01", "password authentication failed")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := stage(t, policy(1, 5), postgresgate.Options{})
				c, ended := sc.enter()
				say(c, tc.first)
				up := sc.backend()
				expect(t, up, tc.first)
				if tc.answer != nil {
					say(up, tc.answer)
					expect(t, c, tc.answer)
				}
				synctest.Wait()
				_ = up.Close()
				isOver(t, ended)
				for _, b := range sc.s.Backends() {
					if n := b.Failures[ingress.HungUp]; n != 0 {
						t.Errorf("%d failures of the backend; want none", n)
					}
				}
			})
		})
	}
}

// Requests to cancel.
func TestCancel(t *testing.T) {
	request := startupMessage(80877102, "\x00\x00\x00\x01secr")
	bubble(t, map[string]func(t *testing.T){
		"what waits for a permit": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 5), postgresgate.Options{})
			c, up, _ := sc.login()
			sc.take()
			say(c, query("select 1"))
			synctest.Wait()
			killer, ended := sc.enter()
			say(killer, request)
			if kinds, state := hear(t, c); kinds != "EZI" || state != "57014" {
				t.Errorf("heard %s %s; want EZI 57014", kinds, state)
			}
			isOver(t, ended)
			silent(t, up)
		},
		// It ended the connection of a client that had sent another query behind
		// the running one.
		"what runs, with a query behind it": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 5), postgresgate.Options{Backends: []string{"a:1", "b:1", "c:1"}})
			c, up, _ := sc.login()
			say(c, script(query("select 1"), query("select 2")))
			expect(t, up, query("select 1"))
			synctest.Wait()
			killer, ended := sc.enter()
			say(killer, request)
			expect(t, sc.backend(), request)
			say(up, script(failure("57014", "canceled"), ready('I')))
			hear(t, c)
			expect(t, up, query("select 2"))
			_ = killer.Close()
			<-ended
		},
		"what nobody waits for any more": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 5), postgresgate.Options{CancelAbandoned: true})
			c, up, ended := sc.login()
			say(c, query("select 1"))
			expect(t, up, query("select 1"))
			_ = c.Close()
			side := sc.backend()
			expect(t, side, request)
			if sc.free() {
				t.Error("the permit is free before the server was told to stop")
			}
			_ = side.Close()
			<-ended
			if !sc.free() {
				t.Error("the permit is held after the server was told to stop")
			}
		},
		"nothing, when work is finished for nobody": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 5), postgresgate.Options{})
			c, up, ended := sc.login()
			say(c, query("select 1"))
			expect(t, up, query("select 1"))
			_ = c.Close()
			time.Sleep(time.Second)
			if sc.free() {
				t.Error("the permit is free while the server works")
			}
			say(up, script(pg('C', "x\x00"), ready('I')))
			<-ended
			if !sc.free() {
				t.Error("the permit is held after the server answered")
			}
		},
	})
}

// With several backends a request goes to the one that its session is on.
func TestCancelGoesToItsBackend(t *testing.T) {
	bubble(t, map[string]func(t *testing.T){"": func(t *testing.T) {
		t.Helper()
		var at []string
		var sc *scene
		dial := func(_ context.Context, address string) (net.Conn, error) {
			at = append(at, address)
			return sc.pipe(), nil
		}
		sc = stage(t, policy(9, 0), postgresgate.Options{Backends: []string{"a:1", "b:1", "c:1"}, Dial: dial})
		c, up, _ := sc.login()
		say(c, query("select 1"))
		expect(t, up, query("select 1"))
		for range 3 {
			killer, ended := sc.enter()
			say(killer, startupMessage(80877102, "\x00\x00\x00\x01secr"))
			side := sc.backend()
			expect(t, side, startupMessage(80877102, "\x00\x00\x00\x01secr"))
			_, _ = killer.Close(), side.Close()
			<-ended
		}
		if got := strings.Join(at, " "); got != "a:1 a:1 a:1 a:1" {
			t.Errorf("dialled %s; want a:1 each time", got)
		}
	}})
}

// What clients that want encryption get from a gate without a certificate that
// lets TLS pass: the server's, and nothing of it is looked at.
func TestOpaque(t *testing.T) {
	bubble(t, map[string]func(t *testing.T){
		"asked for": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{PassTLS: true})
			c, ended := sc.enter()
			say(c, startupMessage(80877103, ""))
			up := sc.backend()
			expect(t, up, startupMessage(80877103, ""))
			say(up, []byte("S"))
			expect(t, c, []byte("S"))
			for range 3 {
				say(c, []byte("\x16\x03\x01whatever"))
				expect(t, up, []byte("\x16\x03\x01whatever"))
				say(up, []byte("Zwhatever"))
				expect(t, c, []byte("Zwhatever"))
			}
			if got := sc.s.Status(); got.Opaque != 1 || got.OpaqueOpen != 1 {
				t.Errorf("Status() = %+v; want 1 opaque, and open", got)
			}
			_, _ = c.Close(), up.Close()
			<-ended
			if got := sc.s.Status(); got.Opaque != 1 || got.OpaqueOpen != 0 {
				t.Errorf("Status() = %+v; want 1 opaque, and none open", got)
			}
		},
		"begun at once": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{PassTLS: true})
			c, _ := sc.enter()
			say(c, []byte("\x16\x03\x01\x00\x05hello"))
			up := sc.backend()
			expect(t, up, []byte("\x16\x03\x01\x00\x05hello"))
			say(up, []byte("hello"))
			expect(t, c, []byte("hello"))
		},
		"refused by the server": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{PassTLS: true})
			c, _ := sc.enter()
			say(c, startupMessage(80877104, ""))
			up := sc.backend()
			expect(t, up, startupMessage(80877104, ""))
			say(up, []byte("N"))
			expect(t, c, []byte("N"))
			say(c, hello())
			expect(t, up, hello())
		},
	})
}

// A drain closes idle sessions and waits for open transactions.
func TestDrain(t *testing.T) {
	bubble(t, map[string]func(t *testing.T){
		"idle": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, _, ended := sc.login()
			sc.drain()
			if m, err := readMessage(c); err != nil || postgresgate.SQLState(m) != "57P01" {
				t.Errorf("read %q, %v; want 57P01", m, err)
			}
			isOver(t, ended)
		},
		"in a transaction": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, ended := sc.login()
			for _, text := range []string{"begin", "insert", "commit"} {
				status := map[string]byte{"begin": 'T', "insert": 'T', "commit": 'I'}[text]
				say(c, query(text))
				expect(t, up, query(text))
				say(up, ready(status))
				hear(t, c)
				sc.gate.Drain()
				sc.drain()
				time.Sleep(10 * time.Second)
			}
			if m, err := readMessage(c); err != nil || postgresgate.SQLState(m) != "57P01" {
				t.Errorf("read %q, %v; want 57P01", m, err)
			}
			isOver(t, ended)
		},
		// It made a drain last as long as it may, and the process end with an error.
		"before the start-up message is whole": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, ended := sc.enter()
			say(c, hello()[:6])
			synctest.Wait()
			sc.drain()
			time.Sleep(900 * time.Millisecond)
			synctest.Wait()
			select {
			case <-ended:
				t.Error("the gate did not wait")
			default:
			}
			time.Sleep(time.Second)
			isOver(t, ended)
		},
		"before the password": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, ended := sc.enter()
			say(c, hello())
			up := sc.backend()
			expect(t, up, hello())
			say(up, pg('R', "\x00\x00\x00\x03"))
			expect(t, c, pg('R', "\x00\x00\x00\x03"))
			sc.drain()
			time.Sleep(900 * time.Millisecond)
			silent(t, c)
			if m, err := readMessage(c); err != nil || postgresgate.SQLState(m) != "57P03" {
				t.Errorf("read %q, %v; want 57P03", m, err)
			}
			isOver(t, ended)
		},
		"who is about to come in is sent elsewhere": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, _ := sc.enter()
			say(c, hello()[:4])
			synctest.Wait()
			sc.drain()
			synctest.Wait()
			say(c, hello()[4:])
			m, err := readMessage(c)
			if err != nil || postgresgate.SQLState(m) != "57P03" {
				t.Errorf("read %q, %v; want 57P03", m, err)
			}
		},
	})
}

// tell reads what somebody who is turned away is told.
func tell(t *testing.T, s *postgresgate.Server, why ingress.Refusal, messages ...[]byte) string {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	go func() { s.TurnAway(far, why); _ = far.Close() }()
	for _, m := range messages {
		say(near, m)
		if string(m) == string(startupMessage(80877103, "")) {
			expect(t, near, []byte("N"))
		}
	}
	m, err := readMessage(near)
	if err != nil {
		return err.Error()
	}
	return postgresgate.SQLState(m)
}

func TestTurnAway(t *testing.T) {
	bubble(t, map[string]func(t *testing.T){"": func(t *testing.T) {
		t.Helper()
		s := stage(t, policy(1, 0), postgresgate.Options{}).s
		ssl := startupMessage(80877103, "")
		for _, tc := range []struct {
			want     string
			why      ingress.Refusal
			messages [][]byte
		}{
			{"53300", ingress.OverRate, [][]byte{hello()}},
			{"53300", ingress.OverOpen, [][]byte{ssl, hello()}},
			{"57P03", ingress.Draining, [][]byte{hello()}},
			{"EOF", ingress.OverOpen, [][]byte{startupMessage(80877102, "\x00\x00\x00\x01secr")}},
			{"EOF", ingress.OverOpen, [][]byte{ssl, ssl, ssl}},
			{"EOF", ingress.OverOpen, [][]byte{[]byte("\xff\xff\xff\xff\xff\xff\xff\xff")}},
		} {
			if got := tell(t, s, tc.why, tc.messages...); got != tc.want {
				t.Errorf("TurnAway(%v) after %q told %s; want %s", tc.why, tc.messages, got, tc.want)
			}
		}
	}})
}

// Hostile and broken beginnings end the connection, and nothing else.
func TestHostileBeginnings(t *testing.T) {
	bubble(t, map[string]func(t *testing.T){"": func(t *testing.T) {
		t.Helper()
		sc := stage(t, policy(1, 0), postgresgate.Options{Exempt: postgresgate.Exemptions{Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}})
		for _, first := range []string{"\x00\x00\x00\x07xxx", "\x7f\xff\xff\xff\x00\x03\x00\x00", "GET / HTTP/1.1\r\n\r\n", "\x00\x00\x27\x11\x00\x03\x00\x00"} {
			c, ended := sc.enter()
			say(c, []byte(first))
			isOver(t, ended)
		}
		c, _, ended := sc.login()
		say(c, []byte("Q\x00\x00\x00\x03"))
		isOver(t, ended)
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read: %v; want the end", err)
		}
	}})
}
