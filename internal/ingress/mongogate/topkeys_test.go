package mongogate_test

import (
	"maps"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/internal/topkeys"
)

// Who makes the load is told by application, client and command, refused or not; of the
// server's answers it is counted which are errors, handshakes and refusals apart.
func TestTopKeys(t *testing.T) {
	b := startScript(t)
	var board topkeys.Board
	now := time.Unix(1e9, 0)
	board.Turn(now)
	counts := &ingress.Counts{}
	_, addr, _ := serve(t, oneAtATime(), mongogate.Options{Backends: []string{b.l.Addr().String()}, TopKeys: &board, Counts: counts})
	c := dial(t, addr)
	hello := msg(1, 0, bson.D{
		{Key: "hello", Value: 1}, {Key: "client", Value: bson.D{{Key: "application", Value: bson.D{{Key: "name", Value: "batch"}}}}}, {Key: "$db", Value: "admin"},
	})
	write(t, c, hello)
	up := b.accept(t)
	expectFrame(t, up, hello)
	write(t, up, reply(1, ok()))
	readFrame(t, c)
	write(t, c, msg(2, 0, cmd("find")))
	readFrame(t, up)
	other := dial(t, addr) // while the only permit is held
	write(t, other, msg(3, 0, cmd("aggregate")))
	expectRefusal(t, other, 3)
	write(t, up, reply(2, ok()))
	readFrame(t, c)
	write(t, c, msg(4, 0, cmd("aggregate")))
	readFrame(t, up)
	write(t, up, reply(4, bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 2}}))
	readFrame(t, c)
	if got, want := counts.Responses(), map[ingress.Response]uint64{ingress.ResponseOK: 1, ingress.ResponseError: 1}; !maps.Equal(got, want) {
		t.Errorf("responses %v; want %v", got, want)
	}
	board.Turn(now.Add(time.Second))
	names := func(kind topkeys.Kind, byRefused bool) (out []string) {
		for _, r := range board.Top(kind, 5, byRefused) {
			out = append(out, r.Name)
		}
		return out
	}
	for _, tc := range []struct {
		kind      topkeys.Kind
		byRefused bool
		want      []string
	}{
		{topkeys.ByApplication, false, []string{"batch"}},
		{topkeys.ByClient, false, []string{"127.0.0.1"}},
		{topkeys.ByOperation, false, []string{"aggregate orders", "find orders"}},
		{topkeys.ByOperation, true, []string{"aggregate orders"}},
		{topkeys.ByUser, false, nil},
	} {
		if got := names(tc.kind, tc.byRefused); len(got) != len(tc.want) || len(got) > 0 && got[0] != tc.want[0] {
			t.Errorf("by %s: %v; want %v", tc.kind, got, tc.want)
		}
	}
}
