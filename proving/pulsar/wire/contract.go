package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/proving/pulsar"
)

// probe is something that the gate relies on.
type probe struct {
	what string
	see  func(r *pulsar.Raw, topic string) string
	want string
}

// soon bounds the wait for what a broker does at once.
const soon = 10 * time.Second

// probes returns what every broker has to do, gate or not.
func probes() []probe {
	return []probe{
		{"a PING is answered with a PONG", ping, "alive"},
		{"a topic is looked up, and has no partitions", lookup, "connect, 0 partitions"},
		{"a producer gets the name that it asks for, or one of the broker's", names, "mine, named"},
		{"a producer that is asked for twice is there once", twice, "the same name"},
		{"receipts come in the order of messages", receipts, "[0 1 2 3 4 5 6 7 8 9]"},
		{"a message whose checksum is wrong is told as SEND_ERROR 9", checksum, "SEND_ERROR 9, alive"},
		{"a message of a producer that the client has closed ends the connection", late, "command 13, over"},
		{"a message of a producer that the broker has closed is ignored", ignored, "alive"},
		{"a message of a producer that never was ends the connection", unknown, "over"},
		{"the same id opens again with the next epoch", reopened, "command 13, command 17, [7]"},
		{"a name that is taken is refused with ERROR 16", taken, "ERROR 16"},
		{"a frame that is larger than any message ends the connection", tooLarge, "over"},
	}
}

// contract plays them at the broker, and at the gate.
func (c *cell) contract(ctx context.Context) {
	for i, p := range probes() {
		var seen [2]string
		for j, address := range []string{c.broker, c.gate} {
			topic := fmt.Sprintf("persistent://public/default/wire-%d-%d", i, j)
			r := c.dial(ctx, address)
			lookup(r, topic) // by which a broker takes it up
			seen[j] = p.see(r, topic)
			r.Close()
		}
		c.Tell(p.what+", with the gate and without", seen == [2]string{p.want, p.want}, seen)
	}
}

// life says whether the connection lives.
func life(r *pulsar.Raw) string {
	if r.Alive(soon) {
		return "alive"
	}
	return "over"
}

func ping(r *pulsar.Raw, _ string) string { return life(r) }

func lookup(r *pulsar.Raw, topic string) string {
	build := func(id uint64) []byte { return pulsarwire.TopicRequest{Topic: topic, RequestID: id}.Append(nil) }
	a, err := r.Ask(pulsarwire.TypePartitionedMetadata, build, pulsarwire.TypePartitionedMetadataOK)
	if err != nil || a.Type == pulsarwire.TypeError {
		return fmt.Sprint(pulsar.Told(a), err)
	}
	m, err := pulsarwire.DecodePartitionedMetadata(a.Body)
	if err != nil || m.Failed {
		return fmt.Sprint(m, err)
	}
	a, err = r.Ask(pulsarwire.TypeLookup, build, pulsarwire.TypeLookupResponse)
	l, err2 := pulsarwire.DecodeLookupResponse(a.Body)
	if err != nil || err2 != nil || l.Response != pulsarwire.LookupConnect || l.BrokerURL == "" {
		return fmt.Sprint(pulsar.Told(a), l, err, err2)
	}
	return fmt.Sprintf("connect, %d partitions", m.Partitions)
}

// opened opens a producer and returns its name.
func opened(r *pulsar.Raw, id uint64, topic, name string) string {
	a, err := r.Open(id, topic, name, 0)
	if err != nil || a.Type != pulsarwire.TypeProducerSuccess {
		return fmt.Sprint(pulsar.Told(a), err)
	}
	p, _ := pulsarwire.DecodeProducerSuccess(a.Body)
	return p.Name
}

func names(r *pulsar.Raw, topic string) string {
	given := "named"
	mine := opened(r, 1, topic, "mine")
	if opened(r, 2, topic, "") == "" {
		given = "nameless"
	}
	return mine + ", " + given
}

func twice(r *pulsar.Raw, topic string) string {
	first := opened(r, 1, topic, "")
	if second := opened(r, 1, topic, ""); second != first {
		return first + ", then " + second
	}
	return "the same name"
}

func receipts(r *pulsar.Raw, topic string) string {
	opened(r, 1, topic, "")
	for i := range uint64(10) {
		r.Send(1, i, 1)
	}
	got, err := r.Receipts(10, soon)
	if err != nil {
		return fmt.Sprint(got, err)
	}
	return fmt.Sprint(got)
}

func checksum(r *pulsar.Raw, topic string) string {
	opened(r, 1, topic, "")
	frame := pulsar.Message(1, 0, 1)
	frame[len(frame)-1] ^= 1
	r.WriteBytes(frame)
	a, err := r.Await(soon, pulsarwire.TypeSendError, pulsarwire.TypeSendReceipt)
	if err != nil {
		return err.Error()
	}
	return pulsar.Told(a) + ", " + life(r)
}

// shut closes a producer and says what was answered.
func shut(r *pulsar.Raw, id uint64) string {
	r.Shut(id)
	a, err := r.Await(soon, pulsarwire.TypeSuccess, pulsarwire.TypeError)
	if err != nil {
		return err.Error()
	}
	return pulsar.Told(a)
}

func late(r *pulsar.Raw, topic string) string {
	opened(r, 1, topic, "")
	answer := shut(r, 1)
	r.Send(1, 0, 1)
	return answer + ", " + life(r)
}

func ignored(r *pulsar.Raw, topic string) string {
	opened(r, 1, topic, "")
	path, _ := strings.CutPrefix(topic, "persistent://")
	if err := pulsar.Admin(context.Background(), http.MethodPut, "persistent/"+path+"/unload", nil); err != nil {
		return err.Error()
	}
	if _, err := r.Await(soon, pulsarwire.TypeCloseProducer); err != nil {
		return err.Error()
	}
	r.Send(1, 0, 1)
	return life(r)
}

func unknown(r *pulsar.Raw, _ string) string {
	r.Send(99, 0, 1)
	return life(r)
}

func reopened(r *pulsar.Raw, topic string) string {
	name := opened(r, 1, topic, "")
	answer := shut(r, 1)
	a, err := r.Open(1, topic, name, 1)
	r.Send(1, 7, 1)
	got, err2 := r.Receipts(1, soon)
	if err != nil || err2 != nil {
		return fmt.Sprint(answer, pulsar.Told(a), err, err2)
	}
	return fmt.Sprintf("%s, %s, %v", answer, pulsar.Told(a), got)
}

// taken asks by two ids of one connection: brokers tell names apart by topic, not
// by connection.
func taken(r *pulsar.Raw, topic string) string {
	opened(r, 1, topic, "mine")
	a, err := r.Open(2, topic, "mine", 0)
	if err != nil {
		return err.Error()
	}
	e, _ := pulsarwire.DecodeError(a.Body)
	return fmt.Sprintf("ERROR %d", e.Code)
}

func tooLarge(r *pulsar.Raw, _ string) string {
	r.WriteBytes([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 8})
	if _, err := r.Await(soon, pulsarwire.TypePong); errors.Is(err, pulsar.ErrOver) {
		return "over"
	}
	return "alive"
}
