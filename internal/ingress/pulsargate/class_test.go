package pulsargate_test

import (
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// A producer is classed by the metadata that it announces itself with, or by its
// name, for as long as it lives.
func TestClassOfProducer(t *testing.T) {
	for name, tc := range map[string]struct {
		producer pulsarwire.Producer
		metadata [2]string
		want     labels.Class
	}{
		"nothing":        {want: labels.Critical},
		"metadata":       {metadata: [2]string{"class", "sheddable"}, want: labels.Sheddable},
		"other metadata": {metadata: [2]string{"team", "sheddable"}, want: labels.Critical},
		"its name":       {producer: pulsarwire.Producer{Name: "etl class=sheddable-plus"}, want: labels.SheddablePlus},
		"nobody raises":  {metadata: [2]string{"class", "critical-plus"}, want: labels.Critical},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := pulsargate.Options{Classes: &ingress.Classes{By: []string{"metadata:class", "producer"}, Default: labels.Critical}}
				p := play(t, o, &limiter.Policy{Classes: &limiter.Classes{}}, pulsarwire.Connect{})
				tc.producer.Topic, tc.producer.ProducerID, tc.producer.RequestID = "t", 1, 101
				body := tc.producer.Append(nil)
				if tc.metadata[0] != "" {
					pair := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), tc.metadata[0])
					pair = protowire.AppendString(protowire.AppendTag(pair, 2, protowire.BytesType), tc.metadata[1])
					body = protowire.AppendBytes(protowire.AppendTag(body, 6, protowire.BytesType), pair)
				}
				p.client.command(pulsarwire.TypeProducer, body)
				p.client.publish(1, 1, 10)
				synctest.Wait()
				for _, n := range p.gate.Status().Classes {
					if want := n.Class == tc.want; (n.Admitted == 1) != want {
						t.Errorf("admitted of %v: %d; want one of %v", n.Class, n.Admitted, tc.want)
					}
				}
				p.broker.store(1, 1)
				synctest.Wait()
			})
		})
	}
}
