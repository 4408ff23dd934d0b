package pulsarwire

import "google.golang.org/protobuf/encoding/protowire"

// Connect is the first command of a client.
type Connect struct {
	ClientVersion   string
	ProtocolVersion uint64
	ProxyToBroker   string // host:port of the broker it wants behind a proxy; "" = any
	Throttling      bool   // it understands [TypeThrottleProducer]
}

// The fields of CONNECT that are read or rewritten.
const (
	connectProxyToBroker = 6
	connectFeatureFlags  = 10
)

// fields is the table of a CONNECT, without its flags.
func (c *Connect) fields() [3]field {
	return [...]field{
		text(1, &c.ClientVersion), number(4, &c.ProtocolVersion), text(connectProxyToBroker, &c.ProxyToBroker),
	}
}

// flags is the table of its feature flags.
func (c *Connect) flags() [1]field { return [...]field{flag(FlagThrottleProducer, &c.Throttling)} }

// DecodeConnect reads the body of a [TypeConnect].
func DecodeConnect(body []byte) (Connect, error) {
	var c Connect
	table, flags := c.fields(), c.flags()
	f := fields{rest: body}
	for f.next() {
		if f.num == connectFeatureFlags && f.kind == protowire.BytesType {
			if err := read(f.bytes, "feature flags", flags[:]); err != nil {
				return c, err
			}
		}
	}
	err := read(body, "CONNECT", table[:])
	return c, err
}

// Append appends the body of c.
func (c Connect) Append(dst []byte) []byte {
	table, flags := c.fields(), c.flags()
	dst = write(dst, table[:])
	if c.Throttling {
		dst = protowire.AppendTag(dst, connectFeatureFlags, protowire.BytesType)
		dst = protowire.AppendBytes(dst, write(nil, flags[:]))
	}
	return dst
}

// StripConnect appends a CONNECT body without what was meant for the gate, the
// broker it was asked to reach and [FlagThrottleProducer], and without the flags
// of Pulsar 5 that would lead the client around it. All other fields, known or
// not, stay as they are; so does an empty name of a broker, by which a client of
// Pulsar 5 tells a proxy that any will do.
func StripConnect(dst, body []byte) ([]byte, error) {
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.num == connectProxyToBroker && len(f.bytes) > 0:
		case f.num == connectFeatureFlags && f.kind == protowire.BytesType:
			kept, err := without(nil, f.bytes, "feature flags", FlagThrottleProducer, FlagScalableTopics, FlagTCDiscovery)
			if err != nil {
				return nil, err
			}
			dst = protowire.AppendTag(dst, connectFeatureFlags, protowire.BytesType)
			dst = protowire.AppendBytes(dst, kept)
		default:
			dst = append(dst, f.raw...)
		}
	}
	return dst, f.err("CONNECT")
}

// Connected is a broker's answer to CONNECT.
type Connected struct {
	ServerVersion   string
	ProtocolVersion uint64
	MaxMessageSize  int // bytes; 0 = not said
}

// The fields of CONNECTED that are rewritten.
const (
	connectedMaxMessageSize = 3
	connectedFeatureFlags   = 4
)

// fields is the table of a CONNECTED.
func (c *Connected) fields() [3]field {
	return [...]field{
		text(1, &c.ServerVersion), number(2, &c.ProtocolVersion), count(connectedMaxMessageSize, &c.MaxMessageSize),
	}
}

// DecodeConnected reads the body of a [TypeConnected].
func DecodeConnected(body []byte) (Connected, error) {
	var c Connected
	table := c.fields()
	err := read(body, "CONNECTED", table[:])
	c.MaxMessageSize = max(c.MaxMessageSize, 0)
	return c, err
}

// Append appends the body of c.
func (c Connected) Append(dst []byte) []byte {
	c.MaxMessageSize = max(c.MaxMessageSize, 0)
	table := c.fields()
	return write(dst, table[:])
}

// ReplaceMaxMessageSize appends a CONNECTED body that names another largest
// message, in bytes, and keeps all other fields.
func ReplaceMaxMessageSize(dst, body []byte, size int) ([]byte, error) {
	dst, err := without(dst, body, "CONNECTED", connectedMaxMessageSize)
	return appendUint(dst, connectedMaxMessageSize, uint64(size)), err
}

// StripConnected appends a CONNECTED body without the flags of Pulsar 5 that would
// lead the client around a gate. stripped is false when it had none of them.
func StripConnected(dst, body []byte) (out []byte, stripped bool, err error) {
	f := fields{rest: body}
	for f.next() {
		if f.num != connectedFeatureFlags || f.kind != protowire.BytesType {
			dst = append(dst, f.raw...)
			continue
		}
		kept, err := without(nil, f.bytes, "feature flags", FlagScalableTopics, FlagTCDiscovery)
		if err != nil {
			return nil, false, err
		}
		stripped = stripped || len(kept) < len(f.bytes)
		dst = protowire.AppendTag(dst, connectedFeatureFlags, protowire.BytesType)
		dst = protowire.AppendBytes(dst, kept)
	}
	return dst, stripped, f.err("CONNECTED")
}
