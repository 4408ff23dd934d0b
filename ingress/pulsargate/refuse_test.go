package pulsargate_test

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/ingress/pulsargate"
	"github.com/admitd/admitd/pulsarwire"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares bytes with a file, as a hex dump that people can read.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	dump := hex.Dump(got)
	if *update {
		if err := os.WriteFile(path, []byte(dump), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != dump {
		t.Errorf("%s: the bytes on the wire have changed:\n%s\nwant\n%s", name, dump, want)
	}
}

// What the gate says of its own is pinned to the byte.
func TestGoldenAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{Limits: pulsargate.Limits{MaxProducers: 1, Topic: pulsargate.PublishRate{Messages: 1}}}, off(), aware())
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
		golden(t, "producer_refused", p.client.all(pulsarwire.TypeError)[0].raw)
		golden(t, "throttle_producer", p.client.all(pulsarwire.TypeThrottleProducer)[0].raw)
		golden(t, "lookup_refused", p.client.all(pulsarwire.TypeLookupResponse)[0].raw)
		golden(t, "lookup_rewritten", p.client.all(pulsarwire.TypeLookupResponse)[1].raw)
		golden(t, "connect_forwarded", p.broker.all(pulsarwire.TypeConnect)[0].raw)
	})
}
