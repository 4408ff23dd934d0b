package postgresgate_test

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/ingress/postgresgate"
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
