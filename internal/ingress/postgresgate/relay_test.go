package postgresgate_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
	"github.com/admitd/admitd/limiter"
)

// bubble runs each case in a bubble of its own.
func bubble(t *testing.T, cases map[string]func(t *testing.T)) {
	t.Helper()
	for name, run := range cases {
		t.Run(name, func(t *testing.T) { synctest.Test(t, run) })
	}
}

// ended fails the test when the gate is not done with the connection.
func isOver(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	synctest.Wait()
	select {
	case <-ended:
	default:
		t.Error("the gate still serves the connection")
	}
}

// Where a refusal stands, and that the connection is as good as before.
func TestRefusal(t *testing.T) {
	ask := script(query("select 1"))
	bubble(t, map[string]func(t *testing.T){
		"simple query": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			p := sc.take()
			say(c, ask)
			if kinds, state := hear(t, c); kinds != "EZI" || state != "53000" {
				t.Errorf("heard %s %s; want EZI 53000", kinds, state)
			}
			silent(t, up)
			p.End(limiter.Ignored)
			say(c, ask)
			expect(t, up, ask)
		},
		// The server compares 63 bytes of a name, and the gate knew none of the others.
		"not of a setting under the start of a long name": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			name := strings.Repeat("a", 63)
			turn(t, c, up, script(parse(name+"x", "set a to 1"), sync0), script(pg('1'), ready('I')))
			sc.take()
			turn(t, c, up, script(bind(name+"y"), execute(), sync0), script(pg('2'), pg('C', "SET\x00"), ready('I')))
		},
		"what was prepared before is answered before": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			sc.take()
			say(c, script(parse("a", "select 1"), describe(), bind("a"), execute(), sync0))
			expect(t, up, script(parse("a", "select 1"), describe(), sync0))
			say(up, script(pg('1'), pg('n'), ready('I')))
			if kinds, state := hear(t, c); kinds != "1nEZI" || state != "53000" {
				t.Errorf("heard %s %s; want 1nEZI 53000", kinds, state)
			}
			silent(t, up)
		},
		"an error of the server stands before it": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			sc.take()
			say(c, script(parse("a", "bad"), bind("a"), execute(), sync0))
			expect(t, up, script(parse("a", "bad"), sync0))
			say(up, script(failure("42601", "bad"), ready('I')))
			if kinds, state := hear(t, c); kinds != "EZI" || state != "42601" {
				t.Errorf("heard %s %s; want EZI 42601, once", kinds, state)
			}
		},
		"a rate has a code of its own": func(t *testing.T) {
			t.Helper()
			p := policy(10, 0)
			p.Rate = limiter.Rate{PerSecond: 1, BurstSeconds: 1}
			sc := stage(t, p, postgresgate.Options{})
			c, up, _ := sc.login()
			say(c, ask)
			expect(t, up, ask)
			say(up, ready('I'))
			hear(t, c)
			say(c, ask)
			if kinds, state := hear(t, c); kinds != "EZI" || state != "53400" {
				t.Errorf("heard %s %s; want EZI 53400", kinds, state)
			}
		},
		// A long comment hid what stood behind it.
		"behind a long comment": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			sc.take()
			say(c, query("/*"+strings.Repeat("x", 20_000)+"*/ select 1"))
			if kinds, state := hear(t, c); kinds != "EZI" || state != "53000" {
				t.Errorf("heard %s %s; want EZI 53000", kinds, state)
			}
			silent(t, up)
		},
		// Behind a statement that is never refused the rest of a pipeline was free.
		"behind SET in one pipeline": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			sc.take()
			first := script(parse("", "set a to 1"), bind(""), execute(), parse("", "select 1"))
			say(c, script(first, bind(""), execute(), sync0))
			expect(t, up, script(first, sync0))
			say(up, script(pg('1'), pg('2'), pg('C', "SET\x00"), pg('1'), ready('I')))
			if kinds, state := hear(t, c); kinds != "12C1EZI" || state != "53000" {
				t.Errorf("heard %s %s; want 12C1EZI 53000", kinds, state)
			}
		},
	})
}

// A query that came with the login passed unseen.
func TestWorkBehindTheLogin(t *testing.T) {
	bubble(t, map[string]func(t *testing.T){"": func(t *testing.T) {
		t.Helper()
		sc := stage(t, policy(1, 0), postgresgate.Options{})
		sc.take()
		c, _ := sc.enter()
		say(c, script(hello(), query("select 1")))
		up := sc.backend()
		if _, err := readStartup(up); err != nil {
			t.Fatal(err)
		}
		silent(t, up)
		say(up, script(pg('R', "\x00\x00\x00\x00"), ready('I')))
		hear(t, c)
		if kinds, state := hear(t, c); kinds != "EZI" || state != "53000" {
			t.Errorf("heard %s %s; want EZI 53000", kinds, state)
		}
	}})
}

// What holds a permit, and what is never refused.
func TestTransactions(t *testing.T) {
	exchange := func(t *testing.T, c, up net.Conn, text string, status byte) {
		t.Helper()
		say(c, query(text))
		expect(t, up, query(text))
		say(up, script(pg('C', "x\x00"), ready(status)))
		hear(t, c)
		synctest.Wait()
	}
	bubble(t, map[string]func(t *testing.T){
		"the permit rests with the client": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{IdleInTransaction: postgresgate.IdleRelease})
			c, up, _ := sc.login()
			exchange(t, c, up, "begin", 'T')
			if !sc.free() {
				t.Error("a permit is held while the session is idle in a transaction")
			}
			p := sc.take()
			exchange(t, c, up, "update t set a = 1", 'T')
			exchange(t, c, up, "fail", 'E')
			exchange(t, c, up, "rollback", 'I')
			exchange(t, c, up, "commit", 'I')
			exchange(t, c, up, "set a to 1", 'I')
			p.End(limiter.Ignored)
			if held := sc.held(); held != 999 && !sc.free() {
				t.Errorf("%d permits are held", held)
			}
		},
		"or is kept": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{IdleInTransaction: postgresgate.IdleKeep})
			c, up, ended := sc.login()
			exchange(t, c, up, "begin", 'T')
			if sc.free() {
				t.Error("a permit is free although the transaction keeps it")
			}
			exchange(t, c, up, "select 1", 'T')
			// The transaction of a client that broke off stayed open for ten minutes.
			_ = c.Close()
			isOver(t, ended)
			if _, err := up.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || !sc.free() {
				t.Errorf("read %v, permit free: %v; want the end of the stream, and true", err, sc.free())
			}
		},
		"superusers and replication": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			sc.take()
			c, up, _ := sc.loginWith(setting("is_superuser", "on"))
			exchange(t, c, up, "select 1", 'I')
			c, up, _ = sc.login("replication", "database")
			exchange(t, c, up, "IDENTIFY_SYSTEM", 'I')
		},
		"exempt application after SET": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{Exempt: postgresgate.Exemptions{Applications: []string{"ops"}}})
			sc.take()
			c, up, _ := sc.login()
			say(c, query("set application_name to ops"))
			expect(t, up, query("set application_name to ops"))
			say(up, script(pg('C', "SET\x00"), setting("application_name", "ops"), ready('I')))
			hear(t, c)
			exchange(t, c, up, "select 1", 'I')
		},
	})
}
