package mongowire_test

import (
	"bytes"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/mongowire"
)

// reply is an OP_MSG that holds d.
func reply(d bson.D) []byte {
	return mongowire.AppendMessage(nil, mongowire.Header{ResponseTo: 1, Op: mongowire.OpMsg}, doc(d))
}

// findCursor feeds a reply to a finder in parts of the given size.
func findCursor(reply []byte, part int) (id int64, found bool) {
	var f mongowire.Finder
	f.Start()
	for len(reply) > 0 {
		n := min(part, len(reply))
		if id, found := f.Feed(reply[:n]); found {
			return id, true
		}
		reply = reply[n:]
	}
	return 0, false
}

// longReply is a reply whose cursor stands behind a batch.
func longReply(n int, id int64) []byte {
	batch := bson.A{}
	for i := range n {
		batch = append(batch, bson.D{{Key: "_id", Value: i}, {Key: "id", Value: int64(666)}, {Key: "cursor", Value: bson.D{{Key: "id", Value: int64(667)}}}, {Key: "pad", Value: bytes.Repeat([]byte{0, 2, 3}, 40)}})
	}
	return reply(bson.D{
		{Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: batch}, {Key: "partialResultsReturned", Value: true}, {Key: "id", Value: id}, {Key: "ns", Value: "shop.orders"}}},
		{Key: "ok", Value: 1.0},
	})
}

// The id is found however the reply is cut into parts, and nothing inside the
// batch is taken for it.
func TestFindCursor(t *testing.T) {
	for _, n := range []int{0, 1, 500} {
		frame := longReply(n, 77)
		for _, part := range []int{1, 2, 3, 7, 100, 1000, 4096, len(frame)} {
			if id, found := findCursor(frame, part); !found || id != 77 {
				t.Errorf("batch of %d in parts of %d: %d, %v; want 77", n, part, id, found)
			}
		}
	}
	for _, part := range []int{1, 64, 4096} {
		if id, found := findCursor(reply(bson.D{{Key: "n", Value: 1}, {Key: "ok", Value: 1.0}}), part); found {
			t.Errorf("a reply without a cursor: %d", id)
		}
	}
}

// Whatever passes, the finder ends, and the parts make no difference to a
// document that is well formed.
func FuzzFindCursor(f *testing.F) {
	f.Add(longReply(3, 77), 5)
	f.Fuzz(func(t *testing.T, b []byte, part int) {
		got, found := findCursor(b, max(1, part))
		if len(b) < 25 || bson.Raw(b[21:]).Validate() != nil {
			return
		}
		if whole, ok := findCursor(b, len(b)); ok != found || whole != got {
			t.Fatalf("in parts of %d: %d, %v; whole: %d, %v", part, got, found, whole, ok)
		}
	})
}
