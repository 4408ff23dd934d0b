package mongogate_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// A command is classed by its comment, its read preference or a rule; what
// continues a transaction that the gate has seen begin goes before everything.
func TestClassOfCommand(t *testing.T) {
	o := mongogate.Options{Classes: &ingress.Classes{
		By: []string{"comment", "application", "readPreference"}, Default: labels.Critical,
		Rules: []ingress.ClassRule{{Operations: []string{"aggregate"}, Class: labels.SheddablePlus}},
	}}
	session := bson.D{{Key: "id", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}}}
	txn := []bson.E{{Key: "lsid", Value: session}, {Key: "txnNumber", Value: int64(1)}, {Key: "autocommit", Value: false}}
	b := startScript(t)
	o.Backends = []string{b.l.Addr().String()}
	g := limiter.New("test", &limiter.Policy{Classes: &limiter.Classes{}}, limiter.Options{})
	addr := serveGate(t, g, o)
	c := dial(t, addr)
	counts := func() map[labels.Class]uint64 {
		all := map[labels.Class]uint64{}
		for _, n := range g.Status().Classes {
			all[n.Class] = n.Admitted
		}
		return all
	}
	first, up := true, c
	for i, tc := range []struct {
		name string
		cmd  bson.D
		want labels.Class
	}{
		{"nothing", cmd("find"), labels.Critical},
		{"a comment", cmd("find", bson.E{Key: "comment", Value: "nightly class=sheddable"}), labels.Sheddable},
		{"a comment that is a document", cmd("find", bson.E{Key: "comment", Value: bson.D{{Key: "class", Value: "sheddable-plus"}}}), labels.SheddablePlus},
		{"a read that may be old", cmd("find", bson.E{Key: "$readPreference", Value: bson.D{{Key: "mode", Value: "secondary"}}}), labels.SheddablePlus},
		{"a rule", cmd("aggregate"), labels.SheddablePlus},
		{"nobody raises", cmd("find", bson.E{Key: "comment", Value: "class=critical-plus"}), labels.Critical},
		{"a transaction that nobody began", cmd("find", txn...), labels.Critical},
		{"its beginning", cmd("find", append([]bson.E{{Key: "startTransaction", Value: true}, {Key: "comment", Value: "sheddable"}}, txn...)...), labels.Sheddable},
		{"its continuation", cmd("find", append([]bson.E{{Key: "comment", Value: "sheddable"}}, txn...)...), labels.CriticalPlus},
	} {
		before := counts()
		id := int32(i + 1)
		write(t, c, msg(id, 0, tc.cmd))
		if first {
			up, first = b.accept(t), false
		}
		readFrame(t, up)
		write(t, up, reply(id, ok()))
		readFrame(t, c)
		if after := counts(); after[tc.want] != before[tc.want]+1 {
			t.Errorf("%s: counts went from %v to %v; want one more of %v", tc.name, before, after, tc.want)
		}
	}
}
