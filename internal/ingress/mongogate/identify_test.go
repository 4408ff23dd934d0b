package mongogate_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/internal/mongowire"
)

// doc marshals a document.
func doc(d bson.D) []byte {
	b, err := bson.Marshal(d)
	if err != nil {
		panic(err)
	}
	return b
}

// frame builds a frame from its payload.
func frame(id, responseTo, op int32, payload []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(16+len(payload)))
	b = binary.LittleEndian.AppendUint32(b, uint32(id))
	b = binary.LittleEndian.AppendUint32(b, uint32(responseTo))
	b = binary.LittleEndian.AppendUint32(b, uint32(op))
	return append(b, payload...)
}

// msg builds an OP_MSG.
func msg(id int32, flags uint32, d bson.D, sections ...[]byte) []byte {
	return frame(id, 0, 2013, msgPayload(flags, d, sections...))
}

func msgPayload(flags uint32, d bson.D, sections ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, flags)
	b = append(append(b, 0), doc(d)...)
	for _, s := range sections {
		b = append(b, s...)
	}
	return b
}

// sequence builds a section of kind 1.
func sequence(docs ...bson.D) []byte {
	body := append([]byte("documents"), 0)
	for _, d := range docs {
		body = append(body, doc(d)...)
	}
	b := binary.LittleEndian.AppendUint32([]byte{1}, uint32(4+len(body)))
	return append(b, body...)
}

// query builds an OP_QUERY.
func query(id int32, ns string, d bson.D) []byte {
	b := append(make([]byte, 4), ns...)
	b = append(b, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff)
	return frame(id, 0, 2004, append(b, doc(d)...))
}

// compressed wraps the payload of an OP_MSG in OP_COMPRESSED.
func compressed(id int32, algorithm byte, payload []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2013)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, algorithm)
	switch algorithm {
	case 0:
		b = append(b, payload...)
	case 1:
		b = append(b, snappy.Encode(nil, payload)...)
	case 2:
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		w.Write(payload)
		w.Close()
		b = append(b, z.Bytes()...)
	case 3:
		w, _ := zstd.NewWriter(nil)
		b = w.EncodeAll(payload, b)
	}
	return frame(id, 0, 2012, b)
}

// find is a command with everything that identify looks at.
func find() bson.D {
	return bson.D{
		{Key: "find", Value: "orders"},
		{Key: "filter", Value: bson.D{{Key: "$db", Value: "decoy"}}},
		{Key: "maxTimeMS", Value: int64(250)},
		{Key: "comment", Value: "nightly"},
		{Key: "lsid", Value: bson.D{{Key: "id", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}}}},
		{Key: "txnNumber", Value: int64(3)},
		{Key: "startTransaction", Value: true},
		{Key: "autocommit", Value: false},
		{Key: "$db", Value: "shop"},
		{Key: "$readPreference", Value: bson.D{{Key: "mode", Value: "nearest"}}},
	}
}

func wantFind() mongogate.Facts {
	return mongogate.Facts{
		Verdict: "identified", Command: "find", Database: "shop", Collection: "orders", ReadPreference: "nearest",
		Comment: "nightly", MaxTime: 250 * time.Millisecond, InTxn: true, StartTxn: true, Txn: 3,
	}
}

// Identify finds the same facts however the command is wrapped.
func TestIdentify(t *testing.T) {
	insert := bson.D{{Key: "insert", Value: "orders"}, {Key: "$db", Value: "shop"}}
	cases := map[string]struct {
		frame []byte
		want  mongogate.Facts
	}{
		"OP_MSG":             {msg(1, 0, find()), wantFind()},
		"checksum":           {frame(1, 0, 2013, append(msgPayload(1, find()), 1, 2, 3, 4)), wantFind()},
		"OP_QUERY":           {query(1, "shop.$cmd", find()), wantFind()},
		"OP_QUERY, wrapped":  {query(1, "shop.$cmd", bson.D{{Key: "$query", Value: find()}}), wantFind()},
		"uncompressed":       {compressed(1, 0, msgPayload(0, find())), wantFind()},
		"snappy":             {compressed(1, 1, msgPayload(0, find())), wantFind()},
		"zlib":               {compressed(1, 2, msgPayload(0, find())), wantFind()},
		"zstd":               {compressed(1, 3, msgPayload(0, find())), wantFind()},
		"compressor unknown": {compressed(1, 9, nil), mongogate.Facts{Verdict: "broken"}},
		"sections":           {msg(1, 0, insert, sequence(bson.D{{Key: "a", Value: 1}})), mongogate.Facts{Verdict: "identified", Command: "insert", Database: "shop", Collection: "orders"}},
		"fire and forget":    {msg(1, 2, insert), mongogate.Facts{Verdict: "identified", Command: "insert", Database: "shop", Collection: "orders", NoReply: true}},
		"getMore":            {msg(1, 1<<16, bson.D{{Key: "getMore", Value: int64(77)}, {Key: "collection", Value: "orders"}, {Key: "$db", Value: "shop"}}), mongogate.Facts{Verdict: "identified", Command: "getMore", Database: "shop", Collection: "orders", Cursor: 77, Exhaust: true}},
		"awaitable hello":    {msg(1, 0, bson.D{{Key: "hello", Value: 1}, {Key: "maxAwaitTimeMS", Value: int64(10000)}, {Key: "$db", Value: "admin"}}), mongogate.Facts{Verdict: "identified", Command: "hello", Database: "admin", Await: true}},
		"legacy query":       {query(1, "shop.orders", bson.D{}), mongogate.Facts{Verdict: "identified", Command: "find", Database: "shop", Collection: "orders"}},
		"legacy insert":      {frame(1, 0, 2002, make([]byte, 40)), mongogate.Facts{Verdict: "opaque", NoReply: true}},
		"unknown opcode":     {frame(1, 0, 4242, make([]byte, 40)), mongogate.Facts{Verdict: "broken"}},
		"unknown, inside":    {frame(1, 0, 2012, append(binary.LittleEndian.AppendUint32(nil, 4242), make([]byte, 40)...)), mongogate.Facts{Verdict: "broken"}},
		"compressed twice":   {frame(1, 0, 2012, append(binary.LittleEndian.AppendUint32(nil, 2012), make([]byte, 40)...)), mongogate.Facts{Verdict: "broken"}},
		"no section":         {frame(1, 0, 2013, []byte{0, 0, 0, 0}), mongogate.Facts{Verdict: "broken"}},
		"no command":         {msg(1, 0, bson.D{}), mongogate.Facts{Verdict: "identified"}},
		"section, zlib":      {compressed(1, 2, behind(2)), mongogate.Facts{Verdict: "identified", NoReply: true}},
		"section, zstd":      {compressed(1, 3, behind(2)), mongogate.Facts{Verdict: "identified", NoReply: true}},
		"length of a lie":    {frame(1, 0, 2013, []byte{0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 2}), mongogate.Facts{Verdict: "broken"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := mongogate.Identify(tc.frame, len(tc.frame))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("Identify (-want +got):\n%s", d)
			}
		})
	}
}

// behind returns the payload of an OP_MSG whose body stands behind a long
// section.
func behind(flags byte) []byte {
	p := append([]byte{flags, 0, 0, 0}, sequence(bson.D{{Key: "a", Value: make([]byte, 300_000)}})...)
	return append(append(p, 0), doc(find())...)
}

// A frame that is not all there is identified as soon as the facts are, and
// otherwise asks for more.
func TestIdentifyPrefix(t *testing.T) {
	big := bson.D{{Key: "a", Value: make([]byte, 100_000)}}
	inFront := msg(1, 0, bson.D{{Key: "insert", Value: "orders"}, {Key: "$db", Value: "shop"}}, sequence(big))
	if f, _ := mongogate.Identify(inFront, 4096); f.Verdict != "identified" || f.Database != "shop" {
		t.Errorf("facts in front: %+v; want identified, database shop", f)
	}
	behind := msg(1, 0, bson.D{{Key: "insert", Value: "orders"}, {Key: "documents", Value: bson.A{big}}, {Key: "$db", Value: "shop"}})
	if f, _ := mongogate.Identify(behind, 4096); f.Verdict != "needMore" || f.Command != "insert" {
		t.Errorf("facts behind: %+v; want needMore, command insert", f)
	}
	if f, _ := mongogate.Identify(behind, len(behind)); f.Verdict != "identified" || f.Database != "shop" {
		t.Errorf("whole: %+v; want identified, database shop", f)
	}
	for n := 16; n < len(inFront); n += 7 {
		if f, _ := mongogate.Identify(inFront, n); f.Verdict == "broken" {
			t.Fatalf("%d bytes of a good frame: broken", n)
		}
	}
}

// Identifying allocates nothing, however large the frame.
func TestIdentifyAllocatesNothing(t *testing.T) {
	big := bson.D{{Key: "a", Value: make([]byte, 1_000_000)}}
	for name, f := range map[string][]byte{
		"small": msg(1, 0, find()),
		"large": msg(1, 0, bson.D{{Key: "insert", Value: "orders"}, {Key: "documents", Value: bson.A{big}}, {Key: "$db", Value: "shop"}}),
	} {
		if n := testing.AllocsPerRun(100, mongogate.IdentifyAllocs(f)); n != 0 {
			t.Errorf("%s frame: %v allocations, want 0", name, n)
		}
	}
}

// Lengths outside the bounds are refused before anything else.
func TestFrameBounds(t *testing.T) {
	for _, n := range []uint32{0, 15, mongogate.DefaultMaxMessageBytes + 1, 0x80000000, 0xffffffff} {
		b := binary.LittleEndian.AppendUint32(nil, n)
		b = append(b, make([]byte, 28)...)
		if _, err := mongogate.Identify(b, len(b)); !errors.Is(err, mongowire.ErrFrame) {
			t.Errorf("length %d: %v, want ErrFrame", int32(n), err)
		}
	}
}

// The user is read from each kind of handshake.
func TestReadUser(t *testing.T) {
	scram := bson.Binary{Data: []byte("n,,n=al=2Cice,r=abc")}
	cases := map[string]struct {
		body bson.D
		want string
	}{
		"SCRAM":       {bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: "SCRAM-SHA-256"}, {Key: "payload", Value: scram}}, "al,ice@admin"},
		"PLAIN":       {bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: "PLAIN"}, {Key: "payload", Value: bson.Binary{Data: []byte("\x00bob\x00pw")}}}, "bob@admin"},
		"X.509":       {bson.D{{Key: "authenticate", Value: 1}, {Key: "mechanism", Value: "MONGODB-X509"}, {Key: "user", Value: "CN=carol"}}, "CN=carol@admin"},
		"speculative": {bson.D{{Key: "hello", Value: 1}, {Key: "speculativeAuthenticate", Value: bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: "SCRAM-SHA-1"}, {Key: "payload", Value: bson.Binary{Data: []byte("n,,n=dan,r=x")}}, {Key: "db", Value: "shop"}}}}, "dan@shop"},
		"none":        {bson.D{{Key: "hello", Value: 1}}, ""},
	}
	for name, tc := range cases {
		if got := mongogate.ReadUser(doc(tc.body), "admin"); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
