package postgresgate_test

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
)

// A client that died in the middle of a COPY, or before the Sync of its unit,
// left a server that waited for the rest, and a permit that nobody gave back: a
// few of them took a whole partition out of service.
func TestClientDiesInTheMiddle(t *testing.T) {
	gone := "client has gone\x00"
	failRows := script(pg('f', gone), sync0)
	over := func(t *testing.T, sc *scene, up net.Conn, ended <-chan struct{}) {
		t.Helper()
		if sc.free() {
			t.Error("the permit is free while the server works")
		}
		say(up, script(failure("57014", "failed"), ready('I')))
		isOver(t, ended)
		if !sc.free() {
			t.Error("the permit is held after the server has answered")
		}
	}
	bubble(t, map[string]func(t *testing.T){
		"of its rows": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, ended := sc.login()
			say(c, query("copy t from stdin"))
			expect(t, up, query("copy t from stdin"))
			say(up, pg('G', "\x00\x00\x00"))
			expect(t, c, pg('G', "\x00\x00\x00"))
			_ = c.Close()
			expect(t, up, failRows)
			over(t, sc, up, ended)
		},
		"before the server asks for its rows": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, ended := sc.login()
			say(c, query("copy t from stdin"))
			expect(t, up, query("copy t from stdin"))
			_ = c.Close()
			synctest.Wait()
			say(up, pg('G', "\x00\x00\x00"))
			expect(t, up, failRows)
			over(t, sc, up, ended)
		},
		"of its unit": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, ended := sc.login()
			unit := script(parse("", "insert into t values (1)"), bind(""), execute())
			say(c, unit)
			expect(t, up, unit)
			synctest.Wait()
			_ = c.Close()
			expect(t, up, script(pg('f', gone), pg('P', "\x00"+gone+"\x00\x00"), sync0)) // a bare Sync would commit
			over(t, sc, up, ended)
		},
	})
}

// halves is a connection of which each direction is a pipe of its own, so that a
// client can close what it sends and still read.
type halves struct {
	net.Conn // to the client

	in net.Conn // from it
}

func (h halves) Read(b []byte) (int, error)        { return h.in.Read(b) }
func (h halves) SetReadDeadline(t time.Time) error { return h.in.SetReadDeadline(t) }
func (h halves) Close() error                      { return errors.Join(h.in.Close(), h.Conn.Close()) }

// A client that has closed what it sends counts as one that has left: it is answered
// what is at work for it where that is finished, and then its connection ends.
func TestHalfClosedClientIsAnswered(t *testing.T) {
	for name, cancel := range map[string]bool{"finish": false, "cancel": true} {
		bubble(t, map[string]func(t *testing.T){name: func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{CancelAbandoned: cancel})
			sends, in := net.Pipe()
			out, hears := net.Pipe()
			ended := make(chan struct{})
			go func() { defer close(ended); sc.s.ServeConn(sc.ctx, halves{out, in}) }()
			say(sends, hello())
			up := sc.backend()
			if _, err := readStartup(up); err != nil {
				t.Fatal(err)
			}
			greeting := script(pg('R', "\x00\x00\x00\x00"), ready('I'))
			say(up, greeting)
			expect(t, hears, greeting)
			say(sends, query("update"))
			expect(t, up, query("update"))
			_ = sends.Close()
			synctest.Wait()
			if cancel {
				if n, err := hears.Read(make([]byte, 1)); n > 0 || err == nil {
					t.Errorf("read %d bytes, %v; want the end", n, err)
				}
				return
			}
			time.Sleep(time.Minute)
			say(up, answer('I'))
			if kinds, _ := hear(t, hears); kinds != "CZI" {
				t.Errorf("heard %s; want CZI", kinds)
			}
			isOver(t, ended)
		}})
	}
}
