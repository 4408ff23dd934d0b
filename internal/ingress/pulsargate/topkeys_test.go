package pulsargate_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/limiter"
)

// Who makes the load is told by topic, whatever the partition; of the broker's answers it
// is counted which are errors.
func TestTopKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var board topkeys.Board
		counts := &ingress.Counts{}
		board.Turn(time.Now())
		p := play(t, pulsargate.Options{TopKeys: &board, Counts: counts}, &limiter.Policy{}, unaware())
		p.client.open(1, "persistent://shop/orders/new-partition-3")
		synctest.Wait()
		p.broker.command(pulsarwire.TypeProducerSuccess, pulsarwire.ProducerSuccess{RequestID: 101, Name: "p"}.Append(nil))
		synctest.Wait()
		p.client.publish(1, 5, 10)
		synctest.Wait()
		p.broker.store(1, 5)
		time.Sleep(time.Second)
		if got, want := counts.Responses(), map[ingress.Response]uint64{ingress.ResponseOK: 6}; !maps.Equal(got, want) { // the producer's, and its messages'
			t.Errorf("responses %v; want %v", got, want)
		}
		board.Turn(time.Now())
		if ops := board.Top(topkeys.ByOperation, 5, false); len(ops) != 1 || ops[0].Name != "send persistent://shop/orders/new" || ops[0].Received < 4 || ops[0].Received > 6 {
			t.Errorf("by operation %+v; want about five messages a second to the topic", ops)
		}
	})
}
