package postgresgate_test

import (
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
)

// asyncpg prepares with Parse, Describe and Flush, looks at the columns, and goes
// on with a query: copy_records_to_table does. The gate took that for no driver's
// work and ended the connection.
func TestQueryBehindFlush(t *testing.T) {
	look := script(parse("s", "select * from t"), describe(), flush0)
	ask := query("copy t from stdin")
	bubble(t, map[string]func(t *testing.T){
		"after its answer": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			say(c, look)
			expect(t, up, look)
			say(up, script(pg('1'), pg('t', "\x00\x00"), pg('T', "\x00\x00")))
			expect(t, c, script(pg('1'), pg('t', "\x00\x00"), pg('T', "\x00\x00")))
			say(c, ask)
			expect(t, up, ask)
			say(up, script(pg('C', "COPY 0\x00"), ready('I')))
			if kinds, _ := hear(t, c); kinds != "CZI" {
				t.Errorf("heard %s; want CZI", kinds)
			}
			if !sc.free() {
				t.Error("the permit is held after the answer")
			}
		},
		"before its answer: it waits, since an error would skip it": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			say(c, script(look, ask, sync0))
			expect(t, up, look)
			synctest.Wait()
			silent(t, up)
			say(up, failure("42P01", "no such table"))
			expect(t, c, failure("42P01", "no such table"))
			expect(t, up, sync0)
			say(up, ready('I'))
			expect(t, c, ready('I'))
		},
		"refused": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			say(c, look)
			expect(t, up, look)
			say(up, script(pg('1'), pg('n')))
			expect(t, c, script(pg('1'), pg('n')))
			sc.take()
			say(c, ask)
			expect(t, up, sync0)
			say(up, ready('I'))
			if kinds, state := hear(t, c); kinds != "EZI" || state != "53000" {
				t.Errorf("heard %s %s; want EZI 53000", kinds, state)
			}
		},
	})
}
