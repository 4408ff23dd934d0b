package pulsargate

import "github.com/admitd/admitd/internal/ingress/pulsargate/topics"

// Key returns what parseTopic and partitionKey make of a topic.
func Key(by By, topic, client string) (full, base, key string) {
	t := topics.Parse(topic)
	return t.Full, t.Base, partitionKey(by, &t, address(client))
}

// Allows reports whether an allow-list covers an address.
func Allows(list []string, address string) bool { return brokers(list).allows(address) }

// address is a net.Addr.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
