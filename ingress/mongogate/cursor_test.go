package mongogate_test

import (
	"bytes"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/ingress/mongogate"
)

// longReply is a reply whose cursor stands behind a batch.
func longReply(n int, id int64) []byte {
	batch := bson.A{}
	for i := range n {
		batch = append(batch, bson.D{{Key: "_id", Value: i}, {Key: "id", Value: int64(666)}, {Key: "cursor", Value: bson.D{{Key: "id", Value: int64(667)}}}, {Key: "pad", Value: bytes.Repeat([]byte{0, 2, 3}, 40)}})
	}
	return reply(1, bson.D{
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
			if id, found := mongogate.FindCursor(frame, part); !found || id != 77 {
				t.Errorf("batch of %d in parts of %d: %d, %v; want 77", n, part, id, found)
			}
		}
	}
	for _, part := range []int{1, 64, 4096} {
		if id, found := mongogate.FindCursor(reply(1, bson.D{{Key: "n", Value: 1}, {Key: "ok", Value: 1.0}}), part); found {
			t.Errorf("a reply without a cursor: %d", id)
		}
	}
}

// Whatever passes, the finder ends, and the parts make no difference to a
// document that is well formed.
func FuzzFindCursor(f *testing.F) {
	f.Add(longReply(3, 77), 5)
	f.Fuzz(func(t *testing.T, b []byte, part int) {
		got, found := mongogate.FindCursor(b, max(1, part))
		if len(b) < 25 || bson.Raw(b[21:]).Validate() != nil {
			return
		}
		if whole, ok := mongogate.FindCursor(b, len(b)); ok != found || whole != got {
			t.Fatalf("in parts of %d: %d, %v; whole: %d, %v", part, got, found, whole, ok)
		}
	})
}
