package mongogate_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/internal/testkit/golden"
	"github.com/admitd/admitd/labels"
)

// The exact bytes of every refusal.
func TestRefusalGolden(t *testing.T) {
	for _, reason := range labels.Reasons() {
		d := labels.New(reason, "orders", "checkout")
		d.RetryAfterMS, d.BaseBackoffMS, d.Limit = 137, 400, labels.ByPartition
		golden.Bytes(t, string(reason)+".hex", mongogate.RefusalFrame(7, false, d, mongogate.Hinted, mongogate.Refusal{}))
	}
	d := labels.New(labels.RequestRate, "orders", "checkout")
	d.BaseBackoffMS = 400
	golden.Bytes(t, "client_silent.hex", mongogate.RefusalFrame(7, false, d, mongogate.Silent, mongogate.Refusal{}))
	golden.Bytes(t, "client_retrying.hex", mongogate.RefusalFrame(7, false, d, mongogate.Retrying, mongogate.Refusal{}))
	golden.Bytes(t, "legacy_query.hex", mongogate.RefusalFrame(7, true, d, mongogate.Hinted, mongogate.Refusal{}))
	golden.Bytes(t, "retries_denied.hex", mongogate.RefusalFrame(7, false, d, mongogate.Hinted, mongogate.Refusal{DenyRetries: true}))
}

// What drivers key on, read back by the driver's own library.
func TestRefusalReadsBack(t *testing.T) {
	for _, reason := range labels.Reasons() {
		d := labels.New(reason, "orders", "checkout")
		d.BaseBackoffMS = 400
		frame := mongogate.RefusalFrame(7, false, d, mongogate.Hinted, mongogate.Refusal{})
		raw := bson.Raw(frame[21:])
		if err := raw.Validate(); err != nil {
			t.Fatalf("%s: %v", reason, err)
		}
		var got struct {
			OK            float64  `bson:"ok"`
			Code          int32    `bson:"code"`
			CodeName      string   `bson:"codeName"`
			ErrorLabels   []string `bson:"errorLabels"`
			BaseBackoffMS int64    `bson:"baseBackoffMS"`
		}
		if err := bson.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if got.OK != 0 || got.Code != 462 || got.CodeName != "IngressRequestRateLimitExceeded" || got.BaseBackoffMS != 400 ||
			!cmp.Equal(got.ErrorLabels, append(reason.Labels(), labels.NoWritesPerformed)) {
			t.Errorf("%s: %+v", reason, got)
		}
		if raw.Lookup("baseBackoffMS").Type != bson.TypeInt64 {
			t.Errorf("%s: baseBackoffMS has type %v, want int64", reason, raw.Lookup("baseBackoffMS").Type)
		}
		if bytes.Contains(frame, []byte("RetryableWriteError")) {
			t.Errorf("%s: carries RetryableWriteError, which makes old drivers retry at once", reason)
		}
	}
}

// Only the newest generation is told that no write was performed: Go's drivers before
// 2.8.1, one generation of which announces itself, take a refusal with that label for
// success when nothing was tried before it.
func TestNoWritesPerformedIsForHintedClients(t *testing.T) {
	d := labels.New(labels.RequestRate, "orders", "checkout")
	for g, want := range map[mongogate.Generation]bool{mongogate.Silent: false, mongogate.Retrying: false, mongogate.Hinted: true} {
		frame := mongogate.RefusalFrame(7, false, d, g, mongogate.Refusal{})
		if got := bytes.Contains(frame, []byte(labels.NoWritesPerformed)); got != want {
			t.Errorf("generation %v: %v; want %v", g, got, want)
		}
	}
}

// member is what the second of three members says of its replica set.
func member() bson.D {
	return bson.D{
		{Key: "isWritablePrimary", Value: false},
		{Key: "secondary", Value: true},
		{Key: "setName", Value: "rs0"},
		{Key: "hosts", Value: bson.A{"db1:27017", "db2:27017"}},
		{Key: "passives", Value: bson.A{"db3:27017"}},
		{Key: "arbiters", Value: bson.A{"arb:27017"}},
		{Key: "primary", Value: "db1:27017"},
		{Key: "me", Value: "db2:27017"},
		{Key: "maxWireVersion", Value: int32(21)},
		{Key: "ok", Value: 1.0},
	}
}

// No address of the backend's own world reaches a client.
func TestHelloIsRewritten(t *testing.T) {
	members := map[string]string{"db1:27017": "gate:9001", "db2:27017": "gate:9002"}
	got, err := mongogate.RewriteHello(mongogate.Topology{Mode: mongogate.TopologyMembers, Members: members}, doc(member()), "db2:27017")
	if err != nil {
		t.Fatal(err)
	}
	want := bson.D{
		{Key: "isWritablePrimary", Value: false},
		{Key: "secondary", Value: true},
		{Key: "setName", Value: "rs0"},
		{Key: "hosts", Value: bson.A{"gate:9001", "gate:9002"}},
		{Key: "passives", Value: bson.A{}},
		{Key: "arbiters", Value: bson.A{}},
		{Key: "primary", Value: "gate:9001"},
		{Key: "me", Value: "gate:9002"},
		{Key: "maxWireVersion", Value: int32(21)},
		{Key: "ok", Value: 1.0},
	}
	if !bytes.Equal(got, doc(want)) {
		t.Errorf("members: %s\nwant     %s", bson.Raw(got), bson.Raw(doc(want)))
	}

	got, err = mongogate.RewriteHello(mongogate.Topology{Mode: mongogate.TopologyLoadBalanced}, doc(member()), "db2:27017")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(got, []byte(":27017")) {
		t.Errorf("loadBalanced: %s names members", bson.Raw(got))
	}
	id := bson.Raw(got).Lookup("serviceId")
	if id.Type != bson.TypeObjectID {
		t.Errorf("loadBalanced: serviceId is %v", id)
	}
	again, _ := mongogate.RewriteHello(mongogate.Topology{Mode: mongogate.TopologyLoadBalanced}, doc(member()), "db3:27017")
	if bson.Raw(again).Lookup("serviceId").Equal(id) {
		t.Error("two backends have the same serviceId")
	}

	got, err = mongogate.RewriteHello(mongogate.Topology{Mode: mongogate.TopologyDirect}, doc(member()), "db2:27017")
	if err != nil || !bytes.Equal(got, doc(member())) {
		t.Errorf("direct: %s, %v; want it unchanged", bson.Raw(got), err)
	}
}

// By default a replica-set member is refused, and the error says what to do.
func TestBypassIsRefused(t *testing.T) {
	_, err := mongogate.RewriteHello(mongogate.Topology{}, doc(member()), "db2:27017")
	if !errors.Is(err, mongogate.ErrBypass) || !strings.Contains(err.Error(), "topology.mode") {
		t.Errorf("hello: %v; want ErrBypass with advice", err)
	}
	if err := mongogate.CheckHello(mongogate.Topology{}, doc(member())); !errors.Is(err, mongogate.ErrBypass) {
		t.Errorf("probe: %v, want ErrBypass", err)
	}
	other := mongogate.Topology{Mode: mongogate.TopologyMembers, Members: map[string]string{"db1:27017": "gate:9001"}}
	if err := mongogate.CheckHello(other, doc(member())); !errors.Is(err, mongogate.ErrBypass) {
		t.Errorf("probe of a member without a gate: %v, want ErrBypass", err)
	}
	mongos := bson.D{{Key: "isWritablePrimary", Value: true}, {Key: "msg", Value: "isdbgrid"}, {Key: "ok", Value: 1.0}}
	if got, err := mongogate.RewriteHello(mongogate.Topology{}, doc(mongos), "s:1"); err != nil || !bytes.Equal(got, doc(mongos)) {
		t.Errorf("mongos: %v, want it unchanged", err)
	}
}
