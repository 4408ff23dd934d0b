package postgresgate_test

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
)

// turn has a client ask, and the server answer.
func turn(t *testing.T, c, up net.Conn, asked, answered []byte) {
	t.Helper()
	say(c, asked)
	expect(t, up, asked)
	say(up, answered)
	expect(t, c, answered)
	synctest.Wait()
}

// refusedTurn has a client ask, and the gate refuse.
func refusedTurn(t *testing.T, c net.Conn, asked []byte) {
	t.Helper()
	say(c, asked)
	if kinds, state := hear(t, c); kinds != "EZI" || state != "53000" {
		t.Errorf("heard %s %s of %q; want EZI 53000", kinds, state, asked)
	}
}

// The holder of a session's advisory lock was refused while those who waited for it
// held every permit, as at a deploy with migrations.
func TestAdvisoryLocks(t *testing.T) {
	row := func(value string) []byte { return pg('D', "\x00\x01\x00\x00\x00\x01", value) }
	done := script(pg('C', "SELECT 1\x00"), ready('I'))
	prepared := func(text string) []byte { return script(parse("", text), bind(""), execute(), sync0) }
	work, unlock := query("alter table t add a int"), query("select pg_advisory_unlock(1)")
	for name, tc := range map[string]struct {
		lock, answer []byte
		holds        bool
	}{
		"taken":               {query("select pg_advisory_lock(1)"), script(row("x"), done), true},
		"taken, prepared":     {prepared("select pg_advisory_lock($1)"), script(pg('1'), pg('2'), row("x"), done), true},
		"tried":               {query("select pg_try_advisory_lock(1)"), script(row("t"), done), true},
		"tried, in binary":    {prepared("select pg_try_advisory_lock(1)"), script(pg('1'), pg('2'), row("\x01"), done), true},
		"tried, and not got":  {query("select pg_try_advisory_lock(1)"), script(row("f"), done), false},
		"failed":              {query("select pg_advisory_lock(1)"), script(failure("57014", "canceled"), ready('I')), false},
		"of a transaction":    {query("select pg_advisory_xact_lock(1)"), script(row("x"), done), false},
		"only in its looks":   {query("select 'pg_advisory_lock(1)'"), script(row("x"), done), false},
		"tried, without rows": {query("select pg_try_advisory_lock(1) where false"), done, false},
	} {
		bubble(t, map[string]func(t *testing.T){name: func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			turn(t, c, up, tc.lock, tc.answer)
			p := sc.take()
			if !tc.holds {
				refusedTurn(t, c, work)
				return
			}
			turn(t, c, up, work, done)
			turn(t, c, up, unlock, script(row("t"), done))
			refusedTurn(t, c, work)
			p.End(0)
			turn(t, c, up, work, done)
		}})
	}
}

// Drivers ask the catalogues when they connect. Refused, postgres.js ended its
// process, and knex logged in anew, which was more load than what was refused.
func TestDriversAskFirst(t *testing.T) {
	types := "select b.oid from pg_catalog.pg_type a left join pg_catalog.pg_type b on b.oid = a.typelem"
	done := script(pg('C', "SELECT 1\x00"), ready('I'))
	bubble(t, map[string]func(t *testing.T){
		"before anything else": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			p := sc.take()
			turn(t, c, up, query("select version()"), done)
			turn(t, c, up, script(parse("t", types), bind("t"), execute(), sync0), script(pg('1'), pg('2'), done))
			refusedTurn(t, c, query("select * from users"))
			turn(t, c, up, query(types), done)
			p.End(0)
			turn(t, c, up, query("select * from users"), done)
			sc.take()
			refusedTurn(t, c, query(types))
			refusedTurn(t, c, script(bind("t"), execute(), sync0))
		},
		"ten times": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			sc.take()
			for range 10 {
				turn(t, c, up, query(types), done)
			}
			refusedTurn(t, c, query(types))
		},
	})
}

// A transaction that began in the unit that ended the one before was never asked
// for, and with it a session that works in such transactions only.
func TestChainedTransactionsAreAskedFor(t *testing.T) {
	fails := script(parse("admitd_refused", "admitd_refused"), sync0)
	syntax := failure("42601", "syntax error at or near \"admitd_refused\"")
	for name, chain := range map[string][]byte{
		"and chain": query("commit and chain"), "commit; begin": query("commit; begin"),
		"a pipeline": script(parse("", "commit"), bind(""), execute(), parse("", "begin"), bind(""), execute(), sync0),
	} {
		for _, idle := range []postgresgate.IdlePolicy{postgresgate.IdleAuto, postgresgate.IdleRelease, postgresgate.IdleKeep} {
			bubble(t, map[string]func(t *testing.T){name: func(t *testing.T) {
				t.Helper()
				sc := stage(t, policy(1, 0), postgresgate.Options{IdleInTransaction: idle})
				c, up, _ := sc.login()
				turn(t, c, up, query("begin"), ready('T'))
				turn(t, c, up, query("insert"), ready('T'))
				turn(t, c, up, chain, ready('T'))
				if !sc.free() {
					t.Fatal("a permit is held for a transaction that nobody has asked for")
				}
				turn(t, c, up, query("insert"), ready('T'))
				turn(t, c, up, chain, ready('T'))
				p := sc.take()
				say(c, query("insert"))
				expect(t, up, fails)
				say(up, script(syntax, ready('E')))
				if kinds, state := hear(t, c); kinds != "EZE" || state != "53000" {
					t.Errorf("heard %s %s; want EZE 53000", kinds, state)
				}
				turn(t, c, up, query("rollback"), ready('I'))
				p.End(0)
				turn(t, c, up, query("begin"), ready('T'))
				turn(t, c, up, chain, ready('T'))
				p = sc.take()
				say(c, script(parse("", "insert"), bind(""), execute(), sync0))
				expect(t, up, script(parse("", "insert"), fails))
				say(up, script(pg('1'), syntax, ready('E')))
				if kinds, state := hear(t, c); kinds != "1EZE" || state != "53000" {
					t.Errorf("heard %s %s; want 1EZE 53000", kinds, state)
				}
				p.End(0)
			}})
		}
	}
}
