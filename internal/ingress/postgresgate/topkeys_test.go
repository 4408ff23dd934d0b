package postgresgate_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/postgresgate"
	"github.com/admitd/admitd/internal/topkeys"
)

// Who makes the load is told by user and statement, refused or not; of the server's
// answers it is counted which are errors, logins and refusals apart.
func TestTopKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var board topkeys.Board
		board.Turn(time.Now())
		counts := &ingress.Counts{}
		sc := stage(t, policy(1, 0), postgresgate.Options{TopKeys: &board, Counts: counts})
		c, up, ended := sc.login("user", "eve", "database", "shop")
		say(c, query("select 1"))
		expect(t, up, query("select 1"))
		other, otherUp, otherEnded := sc.login("user", "bob", "database", "shop")
		say(other, query("delete from orders"))
		hear(t, other) // that it is refused
		say(up, script(pg('C', "SELECT 1\x00"), ready('I')))
		hear(t, c)
		say(c, query("select wrong"))
		expect(t, up, query("select wrong"))
		say(up, script(pg('E', "SERROR\x00C42703\x00Mno\x00\x00"), ready('I')))
		hear(t, c)
		synctest.Wait()
		if got, want := counts.Responses(), map[ingress.Response]uint64{ingress.ResponseOK: 1, ingress.ResponseError: 1}; !maps.Equal(got, want) {
			t.Errorf("responses %v; want %v", got, want)
		}
		time.Sleep(time.Second)
		board.Turn(time.Now())
		users, refused := board.Top(topkeys.ByUser, 5, false), board.Top(topkeys.ByUser, 5, true)
		if len(users) != 2 || len(refused) != 1 || refused[0].Name != "bob" {
			t.Errorf("by user %+v, refused %+v; want eve and bob, and bob", users, refused)
		}
		if ops := board.Top(topkeys.ByOperation, 5, false); len(ops) != 2 || ops[0].Name == ops[1].Name {
			t.Errorf("by operation %+v; want two", ops)
		}
		for _, conn := range []interface{ Close() error }{c, other, up, otherUp} {
			_ = conn.Close()
		}
		<-ended
		<-otherEnded
	})
}
