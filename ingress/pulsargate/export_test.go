package pulsargate

// Key returns what parseTopic and partitionKey make of a topic.
func Key(by By, topic, client string) (full, base, key string) {
	t := parseTopic(topic)
	return t.full, t.base, partitionKey(by, &t, address(client))
}

// Matches reports whether a pattern covers a topic.
func Matches(pattern, topic string) bool {
	t := parseTopic(topic)
	return t.matches(pattern)
}

// Allows reports whether an allow-list covers an address.
func Allows(list []string, address string) bool { return brokers(list).allows(address) }

// address is a net.Addr.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
