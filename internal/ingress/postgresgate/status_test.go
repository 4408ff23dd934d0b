package postgresgate_test

import (
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
)

// The status counts what was decided and refused by operation, and the
// transactions that are open, those of clients that have left not among them.
func TestStatusCounts(t *testing.T) {
	bubble(t, map[string]func(t *testing.T){"": func(t *testing.T) {
		t.Helper()
		sc := stage(t, policy(1, 0), postgresgate.Options{})
		c, up, ended := sc.login()
		p := sc.take()
		say(c, query("update t set n = 1"))
		hear(t, c)
		p.End(0)
		for _, text := range []string{"begin", "update t set n = 1"} {
			say(c, query(text))
			expect(t, up, query(text))
			say(up, ready('T'))
			hear(t, c)
		}
		want := map[string]postgresgate.OperationStatus{"begin": {Decided: 1}, "update": {Decided: 1, Refused: 1}}
		got := sc.s.Status()
		if got.InTransaction != 1 || got.Refused != 1 || len(got.Operations) != 2 || got.Operations["begin"] != want["begin"] || got.Operations["update"] != want["update"] {
			t.Errorf("Status() = %+v; want %v, one refused and one transaction", got, want)
		}
		_ = c.Close()
		synctest.Wait()
		isOver(t, ended)
		if got := sc.s.Status(); got.InTransaction != 0 || got.Connections != 0 {
			t.Errorf("Status() = %+v after the client left; want no connection and no transaction", got)
		}
	}})
}
