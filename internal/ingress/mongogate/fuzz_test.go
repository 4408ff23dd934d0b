package mongogate_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/internal/mongowire"
)

// Whatever the bytes, identify returns a verdict or ErrFrame, never looks
// beyond what is there, and says the same of the same frame.
func FuzzIdentify(f *testing.F) {
	f.Add(msg(1, 0, find()), 20)
	f.Add(query(1, "admin.$cmd", bson.D{{Key: "isMaster", Value: 1}}), 60)
	for a := range byte(4) {
		f.Add(compressed(1, a, msgPayload(0, find())), 100)
	}
	f.Add(msg(1, 2, bson.D{{Key: "insert", Value: "x"}}, sequence(bson.D{{Key: "a", Value: 1}})), 80)
	f.Fuzz(func(t *testing.T, b []byte, have int) {
		if len(b) < 16 {
			return
		}
		have = max(16, min(have, len(b)))
		prefix := bytes.Clone(b[:have])
		got, err := mongogate.Identify(prefix, have)
		if err != nil {
			if !errors.Is(err, mongowire.ErrFrame) {
				t.Fatalf("error %v is none of ours", err)
			}
			return
		}
		if again, _ := mongogate.Identify(b, have); again != got {
			t.Fatalf("%+v and %+v of the same bytes", got, again)
		}
		n := int(int32(binary.LittleEndian.Uint32(b)))
		if n <= have && got.Verdict == "needMore" {
			t.Fatalf("needMore of a whole frame of %d bytes", n)
		}
		checkFacts(t, prefix, min(n, have), &got)
	})
}

// checkFacts checks what must hold of the facts of a frame of which n bytes are
// there: whether a reply is wanted stands in the flags and nowhere else, the
// cost is one of those that are configured, and the key is bounded.
func checkFacts(t *testing.T, b []byte, n int, got *mongogate.Facts) {
	t.Helper()
	if op := binary.LittleEndian.Uint32(b[12:]); op == 2013 && n >= 21 {
		flags := binary.LittleEndian.Uint32(b[16:])
		if got.NoReply != (flags&2 != 0) || got.Exhaust != (flags&(1<<16) != 0) {
			t.Fatalf("flags %x, no reply %v, exhaust %v", flags, got.NoReply, got.Exhaust)
		}
	}
	o := mongogate.Options{Costs: map[string]float64{"read": 2, "write": 3, "aggregate": 5, "other": 7}}
	switch cost := mongogate.Cost(o, b); cost {
	case 0, 2, 3, 5, 7:
		if (cost == 5) != (got.Command == "aggregate") {
			t.Fatalf("%q costs %v", got.Command, cost)
		}
	default:
		t.Fatalf("%q costs %v", got.Command, cost)
	}
	key := mongogate.PartitionKey([]string{"database", "collection", "command", "comment"}, b)
	if len(key) > 4*255+3 || strings.Count(key, "/") < 3 {
		t.Fatalf("key %q of %d bytes", key, len(key))
	}
}

// What a hello says of a client is bounded, whatever it says.
func FuzzHandshake(f *testing.F) {
	f.Add(doc(bson.D{{Key: "hello", Value: 1}, {Key: "backpressure", Value: "2"}, {Key: "client", Value: bson.D{
		{Key: "application", Value: bson.D{{Key: "name", Value: "app"}}}, {Key: "driver", Value: bson.D{{Key: "name", Value: "d"}}},
	}}}), "admin")
	f.Add(doc(bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: "SCRAM-SHA-256"}, {Key: "payload", Value: []byte("n,,n=a=2Cb,r=x")}}), "db")
	f.Add(doc(bson.D{{Key: "speculativeAuthenticate", Value: bson.D{{Key: "user", Value: "u"}, {Key: "db", Value: "d"}}}}), "db")
	f.Add(doc(bson.D{{Key: "ok", Value: 1}, {Key: "done", Value: true}}), "")
	f.Fuzz(func(t *testing.T, body []byte, db string) {
		c, _ := mongogate.ReadClient(body)
		if len(c.Application) > 128 || len(c.Driver) > 128 || c.Generation > mongogate.Hinted {
			t.Fatalf("client %+v", c)
		}
		if user := mongogate.ReadUser(body, db); len(user) > 2*128+1 || user != "" && !strings.Contains(user, "@") {
			t.Fatalf("user %q", user)
		}
	})
}

// Whatever a server replies, its bytes reach the client, in whatever parts they
// come, and the permit ends; or the connection does.
func FuzzReply(f *testing.F) {
	f.Add(int32(2013), msgPayload(0, ok()), 16, true)
	f.Add(int32(2013), msgPayload(0, opens(7)), 5000, false)
	f.Add(int32(2013), msgPayload(0, append(ok(), bson.E{Key: "pad", Value: make([]byte, 9000)})), 700, true)
	f.Add(int32(1), append(make([]byte, 20), doc(ok())...), 30, true)
	f.Add(int32(2012), compressed(1, 2, msgPayload(0, ok()))[16:], 20, true)
	f.Add(int32(2013), msgPayload(2, ok()), 20, true)
	f.Fuzz(func(t *testing.T, op int32, payload []byte, part int, exhaust bool) {
		if len(payload) > 1<<20 || (op == 2012 && len(payload) > 8 && payload[8] == 3) {
			return // decoders of zstd hold channels, which must not wander from bubble to bubble
		}
		part = max(1+len(payload)/20, min(part, 1<<20))
		synctest.Test(t, func(t *testing.T) {
			sc := stage(t, oneAtATime(), mongogate.Options{})
			c, ended := sc.enter()
			flags := uint32(0)
			if exhaust {
				flags = 1 << 16
			}
			say(c, msg(1, flags, cmd("find")))
			up := sc.backend()
			readFrame(t, up)
			answer := frame(1001, 1, op, payload)
			go func() {
				for b := answer; len(b) > 0; {
					n := min(part, len(b))
					if _, err := up.Write(b[:n]); err != nil {
						return
					}
					b = b[n:]
				}
			}()
			got := make([]byte, len(answer))
			if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, answer) {
				t.Errorf("%d of %d bytes came: %v", n, len(answer), err)
			}
			synctest.Wait()
			if !sc.free() {
				t.Error("the permit is held after the reply")
			}
			if st := sc.s.Status(); st.OpenCursors > 1 || st.OpenTransactions > 0 {
				t.Errorf("%d cursors and %d transactions open after one reply", st.OpenCursors, st.OpenTransactions)
			}
			_ = c.Close()
			_ = up.Close()
			<-ended
		})
	})
}
