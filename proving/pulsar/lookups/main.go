// Command lookups asks where topics are: the broker, and the gate before it.
package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/admitd/admitd/client/pulsarproducer"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/proving/pulsar"
)

// topic is asked for, and published to.
const topic = "persistent://public/default/lookups"

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var f pulsar.Facts
	broker, gate, strict, name := os.Getenv("BROKER"), os.Getenv("GATE"), os.Getenv("STRICT"), os.Getenv("BROKER_NAME")

	direct := ask(ctx, &f, broker, "")
	host, _, _ := net.SplitHostPort(name)
	proxies := net.ParseIP(host).IsLoopback()
	f.Tell(fmt.Sprintf("the broker calls itself %s, and has clients come by way of the address that they know: %v", host, proxies),
		direct.BrokerURL == "pulsar://"+name && direct.ThroughServiceURL == proxies, direct)
	through := ask(ctx, &f, gate, "")
	f.Tell("the gate's answer leads through the gate, to that broker", through.ThroughServiceURL && through.Response == direct.Response &&
		through.Authoritative == direct.Authoritative && where(through.BrokerURL) == name && where(through.BrokerURLTLS) == name, through)
	again := ask(ctx, &f, gate, name)
	f.Tell("who comes back for that broker gets it", again.ThroughServiceURL && where(again.BrokerURL) == name, again)
	_, err := pulsar.Dial(ctx, gate, "", "127.0.0.1:1")
	f.Tell("who comes back for another does not: ERROR 22", err != nil && strings.Contains(err.Error(), "ERROR 22"), err)

	reach(ctx, &f, gate, name)
	if broker == name {
		f.End()
		return
	}
	refused := ask(ctx, &f, strict, "")
	f.Tell("a broker that calls itself by a name which is not on the gate's list is not passed on", refused.Response == pulsarwire.LookupFailed && refused.Code == pulsarwire.NotAllowedError, refused)
	f.End()
}

// ask looks the topic up, on a connection for a broker behind it unless that is empty.
func ask(ctx context.Context, f *pulsar.Facts, address, broker string) pulsarwire.LookupResponse {
	r, err := pulsar.Dial(ctx, address, "", broker)
	f.Must("a connection to "+address, err)
	defer r.Close()
	a, err := r.Ask(pulsarwire.TypeLookup, func(id uint64) []byte {
		return pulsarwire.TopicRequest{Topic: topic, RequestID: id}.Append(nil)
	}, pulsarwire.TypeLookupResponse)
	f.Must("an answer of "+address, err)
	l, err := pulsarwire.DecodeLookupResponse(a.Body)
	f.Must("an answer of "+address, err)
	return l
}

// where returns the address of a URL.
func where(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	return u.Host
}

// reach has the reference producer follow the answer, by way of the gate and, where
// it has no way to what the broker calls itself, without.
func reach(ctx context.Context, f *pulsar.Facts, gate, name string) {
	f.Must("a message by way of the gate", publish(ctx, gate))
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", name)
	if err != nil {
		f.Tell("the reference producer publishes, and has no other way to the broker", publish(ctx, os.Getenv("BROKER")) != nil)
		return
	}
	conn.Close()
	f.Tell("the reference producer publishes by way of the gate", true)
}

// publish sends a message to what an address leads to.
func publish(ctx context.Context, address string) error {
	c, err := pulsarproducer.Connect(ctx, address, pulsarproducer.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.NewProducer(ctx, topic, pulsarproducer.ProducerOptions{})
	if err != nil {
		return err
	}
	return p.Send(ctx, []byte("looked up"))
}
