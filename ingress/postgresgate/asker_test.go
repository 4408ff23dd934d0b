package postgresgate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/askers"
	"github.com/admitd/admitd/ingress/postgresgate"
)

// Who makes the load is told by user and statement, refused or not.
func TestAskers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var board askers.Board
		board.Turn(time.Now())
		sc := stage(t, policy(1, 0), postgresgate.Options{Askers: &board})
		c, up, ended := sc.login("user", "eve", "database", "shop")
		say(c, query("select 1"))
		expect(t, up, query("select 1"))
		other, otherUp, otherEnded := sc.login("user", "bob", "database", "shop")
		say(other, query("delete from orders"))
		hear(t, other) // that it is refused
		say(up, script(pg('C', "SELECT 1\x00"), ready('I')))
		hear(t, c)
		synctest.Wait()
		time.Sleep(time.Second)
		board.Turn(time.Now())
		users, refused := board.Top(askers.ByUser, 5, false), board.Top(askers.ByUser, 5, true)
		if len(users) != 2 || len(refused) != 1 || refused[0].Name != "bob" {
			t.Errorf("by user %+v, refused %+v; want eve and bob, and bob", users, refused)
		}
		if ops := board.Top(askers.ByOperation, 5, false); len(ops) != 2 || ops[0].Name == ops[1].Name {
			t.Errorf("by operation %+v; want two", ops)
		}
		for _, conn := range []interface{ Close() error }{c, other, up, otherUp} {
			_ = conn.Close()
		}
		<-ended
		<-otherEnded
	})
}
