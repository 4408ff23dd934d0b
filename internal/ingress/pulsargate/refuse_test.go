package pulsargate_test

import (
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/internal/testkit/golden"
)

// What the gate says of its own is pinned to the byte.
func TestGoldenAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{Limits: pulsargate.Limits{MaxProducers: 1, Topic: topics.PublishRate{Messages: 1}}}, off(), aware())
		p.client.open(1, "t")
		p.client.open(2, "t")
		p.client.write(sendFrame(1, 0, 1))
		p.client.write(sendFrame(1, 1, 1))
		for _, url := range []string{"pulsar://elsewhere:6650", "pulsar://broker:6650"} {
			p.broker.command(pulsarwire.TypeLookupResponse, pulsarwire.LookupResponse{
				BrokerURL: url, Response: pulsarwire.LookupConnect, RequestID: 3, Authoritative: true,
			}.Append(nil))
		}
		synctest.Wait()
		golden.Bytes(t, "producer_refused.golden", p.client.all(pulsarwire.TypeError)[0].raw)
		golden.Bytes(t, "throttle_producer.golden", p.client.all(pulsarwire.TypeThrottleProducer)[0].raw)
		golden.Bytes(t, "lookup_refused.golden", p.client.all(pulsarwire.TypeLookupResponse)[0].raw)
		golden.Bytes(t, "lookup_rewritten.golden", p.client.all(pulsarwire.TypeLookupResponse)[1].raw)
		golden.Bytes(t, "connect_forwarded.golden", p.broker.all(pulsarwire.TypeConnect)[0].raw)
	})
}
