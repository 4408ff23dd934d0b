package mongogate_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// Commands that choose by the same fields are of one shape, in whatever order and
// with whatever values; values appear nowhere.
func TestShapesOfCommands(t *testing.T) {
	b := startScript(t)
	g := limiter.New("test", &limiter.Policy{Shapes: 20}, limiter.Options{})
	c := dial(t, serveGate(t, g, mongogate.Options{Backends: []string{b.l.Addr().String()}}))
	up := c
	where := func(filter ...bson.E) bson.E { return bson.E{Key: "filter", Value: bson.D(filter)} }
	for i, d := range []bson.D{
		cmd("find", where(bson.E{Key: "a", Value: "secret"}, bson.E{Key: "b", Value: 1})),
		cmd("find", where(bson.E{Key: "b", Value: 2}, bson.E{Key: "a", Value: "other"})),
		cmd("find", where(bson.E{Key: "a", Value: 1})),
		cmd("aggregate", bson.E{Key: "pipeline", Value: bson.A{
			bson.D{{Key: "$match", Value: bson.D{{Key: "c", Value: "secret"}}}}, bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: nil}}}},
		}}),
		cmd("update", bson.E{Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "a", Value: "secret"}}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "z", Value: 1}}}}}}}}),
	} {
		id := int32(i + 1)
		write(t, c, msg(id, 0, d))
		if i == 0 {
			up = b.accept(t)
		}
		readFrame(t, up)
		write(t, up, reply(id, ok()))
		readFrame(t, c)
	}
	got := map[string]uint64{}
	for _, s := range g.Shapes(20) {
		got[s.Name] = s.Ended
	}
	const ns = "shop.orders"
	for name, n := range map[string]uint64{
		"find " + ns + " {a, b}": 2, "find " + ns + " {a}": 1,
		"aggregate " + ns + " {$group, c}": 1, "update " + ns + " {a}": 1,
	} {
		if got[name] != n {
			t.Errorf("%q ended %d times; want %d (%v)", name, got[name], n, got)
		}
	}
}
