package pulsarwire

import "google.golang.org/protobuf/encoding/protowire"

// Answers of a lookup.
const (
	LookupRedirect = 0 // ask another broker
	LookupConnect  = 1 // this broker serves the topic
	LookupFailed   = 2
)

// LookupResponse says which broker serves a topic.
type LookupResponse struct {
	BrokerURL, BrokerURLTLS string
	Response                int
	RequestID               uint64
	Authoritative           bool
	Code                    ServerError // of LookupFailed
	Message                 string
	ThroughServiceURL       bool // connect by way of the address that was asked
}

// The fields of LOOKUP_RESPONSE that are rewritten.
const (
	lookupURL     = 1
	lookupURLTLS  = 2
	lookupThrough = 8
)

// DecodeLookupResponse reads the body of a [TypeLookupResponse].
func DecodeLookupResponse(body []byte) (LookupResponse, error) {
	var l LookupResponse
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.num == lookupURL && f.kind == protowire.BytesType:
			l.BrokerURL = string(f.bytes)
		case f.num == lookupURLTLS && f.kind == protowire.BytesType:
			l.BrokerURLTLS = string(f.bytes)
		case f.varint(3):
			l.Response = int(int32(f.value))
		case f.varint(4):
			l.RequestID = f.value
		case f.varint(5):
			l.Authoritative = f.value != 0
		case f.varint(6):
			l.Code = ServerError(int32(f.value))
		case f.num == 7 && f.kind == protowire.BytesType:
			l.Message = string(f.bytes)
		case f.varint(lookupThrough):
			l.ThroughServiceURL = f.value != 0
		}
	}
	return l, f.err("LOOKUP_RESPONSE")
}

// Append appends the body of l.
func (l LookupResponse) Append(dst []byte) []byte {
	dst = appendString(dst, lookupURL, l.BrokerURL)
	dst = appendString(dst, lookupURLTLS, l.BrokerURLTLS)
	dst = appendUint(dst, 3, uint64(l.Response))
	dst = appendUint(dst, 4, l.RequestID)
	dst = appendBool(dst, 5, l.Authoritative)
	if l.Response == LookupFailed {
		dst = appendUint(dst, 6, uint64(l.Code))
	}
	dst = appendString(dst, 7, l.Message)
	return appendBool(dst, lookupThrough, l.ThroughServiceURL)
}

// RewriteLookup appends a LOOKUP_RESPONSE body that names the given addresses,
// to be reached through the address that was asked, and keeps all other fields.
func RewriteLookup(dst, body []byte, url, urlTLS string) ([]byte, error) {
	f := fields{rest: body}
	for f.next() {
		if f.num != lookupURL && f.num != lookupURLTLS && f.num != lookupThrough {
			dst = append(dst, f.raw...)
		}
	}
	dst = appendString(appendString(dst, lookupURL, url), lookupURLTLS, urlTLS)
	return appendBool(dst, lookupThrough, true), f.err("LOOKUP_RESPONSE")
}

// TopicRequest is a question about a topic: LOOKUP or PARTITIONED_METADATA.
type TopicRequest struct {
	Topic     string
	RequestID uint64
}

// DecodeTopicRequest reads the body of a [TypeLookup] or a
// [TypePartitionedMetadata], which begin alike.
func DecodeTopicRequest(body []byte) (TopicRequest, error) {
	var r TopicRequest
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.num == 1 && f.kind == protowire.BytesType:
			r.Topic = string(f.bytes)
		case f.varint(2):
			r.RequestID = f.value
		}
	}
	return r, f.err("topic request")
}

// Append appends the body of r.
func (r TopicRequest) Append(dst []byte) []byte {
	return appendUint(appendString(dst, 1, r.Topic), 2, r.RequestID)
}

// PartitionedMetadata says how many partitions a topic has, 0 when it is not
// partitioned.
type PartitionedMetadata struct {
	RequestID  uint64
	Partitions uint64
	Failed     bool        // the question was not answered
	Code       ServerError // of Failed
	Message    string
}

// DecodePartitionedMetadata reads the body of a [TypePartitionedMetadataOK].
func DecodePartitionedMetadata(body []byte) (PartitionedMetadata, error) {
	var p PartitionedMetadata
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.varint(1):
			p.Partitions = f.value
		case f.varint(2):
			p.RequestID = f.value
		case f.varint(3):
			p.Failed = f.value != 0
		case f.varint(4):
			p.Code = ServerError(int32(f.value))
		case f.num == 5 && f.kind == protowire.BytesType:
			p.Message = string(f.bytes)
		}
	}
	return p, f.err("PARTITIONED_METADATA_RESPONSE")
}

// Append appends the body of p.
func (p PartitionedMetadata) Append(dst []byte) []byte {
	if p.Failed {
		dst = appendUint(appendUint(dst, 2, p.RequestID), 3, 1)
		return appendString(appendUint(dst, 4, uint64(p.Code)), 5, p.Message)
	}
	return appendUint(appendUint(appendUint(dst, 1, p.Partitions), 2, p.RequestID), 3, 0)
}

// TopicMigrated names the cluster that has taken over a topic.
type TopicMigrated struct {
	ResourceID  uint64
	URL, URLTLS string
}

// DecodeTopicMigrated reads the body of a [TypeTopicMigrated].
func DecodeTopicMigrated(body []byte) (TopicMigrated, error) {
	var t TopicMigrated
	f := fields{rest: body}
	for f.next() {
		switch {
		case f.varint(1):
			t.ResourceID = f.value
		case f.num == 3 && f.kind == protowire.BytesType:
			t.URL = string(f.bytes)
		case f.num == 4 && f.kind == protowire.BytesType:
			t.URLTLS = string(f.bytes)
		}
	}
	return t, f.err("TOPIC_MIGRATED")
}

// DropFields appends body without the fields whose numbers are given.
func DropFields(dst, body []byte, nums ...int32) ([]byte, error) {
	f := fields{rest: body}
next:
	for f.next() {
		for _, n := range nums {
			if f.num == protowire.Number(n) {
				continue next
			}
		}
		dst = append(dst, f.raw...)
	}
	return dst, f.err("body")
}

// appendBool appends a bool field, unless it is false.
func appendBool(dst []byte, num protowire.Number, v bool) []byte {
	if !v {
		return dst
	}
	return appendUint(dst, num, 1)
}
