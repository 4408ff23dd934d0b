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

// DecodeConnect reads the body of a [TypeConnect].
func DecodeConnect(body []byte) (Connect, error) {
	var c Connect
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.num == 1 && f.kind == protowire.BytesType:
			c.ClientVersion = string(f.bytes)
		case f.varint(4):
			c.ProtocolVersion = f.value
		case f.num == connectProxyToBroker && f.kind == protowire.BytesType:
			c.ProxyToBroker = string(f.bytes)
		case f.num == connectFeatureFlags && f.kind == protowire.BytesType:
			flags := fields{rest: f.bytes}
			for flags.next() {
				if flags.varint(FlagThrottleProducer) {
					c.Throttling = flags.value != 0
				}
			}
			f.bad = f.bad || flags.bad
		}
	}
	return c, f.err("CONNECT")
}

// Append appends the body of c.
func (c Connect) Append(dst []byte) []byte {
	dst = appendString(dst, 1, c.ClientVersion)
	dst = appendUint(dst, 4, c.ProtocolVersion)
	dst = appendString(dst, connectProxyToBroker, c.ProxyToBroker)
	if c.Throttling {
		flags := appendUint(nil, FlagThrottleProducer, 1)
		dst = protowire.AppendTag(dst, connectFeatureFlags, protowire.BytesType)
		dst = protowire.AppendBytes(dst, flags)
	}
	return dst
}

// StripConnect appends a CONNECT body without what was meant for the gate: the
// broker it was asked to reach and [FlagThrottleProducer]. All other fields,
// known or not, stay as they are.
func StripConnect(dst, body []byte) ([]byte, error) {
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.num == connectProxyToBroker:
		case f.num == connectFeatureFlags && f.kind == protowire.BytesType:
			kept, flags := []byte(nil), fields{rest: f.bytes}
			for flags.next() {
				if flags.num != FlagThrottleProducer {
					kept = append(kept, flags.raw...)
				}
			}
			if err := flags.err("feature flags"); err != nil {
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

// connectedMaxMessageSize is the field of CONNECTED that is rewritten.
const connectedMaxMessageSize = 3

// DecodeConnected reads the body of a [TypeConnected].
func DecodeConnected(body []byte) (Connected, error) {
	var c Connected
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.num == 1 && f.kind == protowire.BytesType:
			c.ServerVersion = string(f.bytes)
		case f.varint(2):
			c.ProtocolVersion = f.value
		case f.varint(connectedMaxMessageSize):
			c.MaxMessageSize = max(int(int32(f.value)), 0)
		}
	}
	return c, f.err("CONNECTED")
}

// Append appends the body of c.
func (c Connected) Append(dst []byte) []byte {
	dst = appendString(dst, 1, c.ServerVersion)
	dst = appendUint(dst, 2, c.ProtocolVersion)
	if c.MaxMessageSize > 0 {
		dst = appendUint(dst, connectedMaxMessageSize, uint64(c.MaxMessageSize))
	}
	return dst
}

// ReplaceMaxMessageSize appends a CONNECTED body that names another largest
// message, in bytes, and keeps all other fields.
func ReplaceMaxMessageSize(dst, body []byte, size int) ([]byte, error) {
	f := fields{rest: body}
	for f.next() {
		if f.num != connectedMaxMessageSize {
			dst = append(dst, f.raw...)
		}
	}
	return appendUint(dst, connectedMaxMessageSize, uint64(size)), f.err("CONNECTED")
}
