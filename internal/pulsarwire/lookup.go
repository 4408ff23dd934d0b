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

// fields is the table of a LOOKUP_RESPONSE.
func (l *LookupResponse) fields() [8]field {
	return [...]field{
		text(lookupURL, &l.BrokerURL), text(lookupURLTLS, &l.BrokerURLTLS), written(count(3, &l.Response)),
		number(4, &l.RequestID), flag(5, &l.Authoritative), code(6, (*int32)(&l.Code)), text(7, &l.Message),
		flag(lookupThrough, &l.ThroughServiceURL),
	}
}

// DecodeLookupResponse reads the body of a [TypeLookupResponse].
func DecodeLookupResponse(body []byte) (LookupResponse, error) {
	var l LookupResponse
	table := l.fields()
	err := read(body, "LOOKUP_RESPONSE", table[:])
	return l, err
}

// Append appends the body of l.
func (l LookupResponse) Append(dst []byte) []byte {
	table := l.fields()
	return write(dst, table[:])
}

// RewriteLookup appends a LOOKUP_RESPONSE body that names the given addresses,
// to be reached through the address that was asked, and keeps all other fields.
func RewriteLookup(dst, body []byte, url, urlTLS string) ([]byte, error) {
	dst, err := without(dst, body, "LOOKUP_RESPONSE", lookupURL, lookupURLTLS, lookupThrough)
	dst = appendString(appendString(dst, lookupURL, url), lookupURLTLS, urlTLS)
	return appendUint(dst, lookupThrough, 1), err
}

// TopicRequest is a question about a topic: LOOKUP or PARTITIONED_METADATA.
type TopicRequest struct {
	Topic     string
	RequestID uint64
}

// fields is the table of both.
func (r *TopicRequest) fields() [2]field {
	return [...]field{text(1, &r.Topic), number(2, &r.RequestID)}
}

// DecodeTopicRequest reads the body of a [TypeLookup] or a
// [TypePartitionedMetadata], which begin alike.
func DecodeTopicRequest(body []byte) (TopicRequest, error) {
	var r TopicRequest
	table := r.fields()
	err := read(body, "topic request", table[:])
	return r, err
}

// Append appends the body of r.
func (r TopicRequest) Append(dst []byte) []byte {
	table := r.fields()
	return write(dst, table[:])
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

// fields is the table of a PARTITIONED_METADATA_RESPONSE.
func (p *PartitionedMetadata) fields() [5]field {
	return [...]field{
		number(1, &p.Partitions), number(2, &p.RequestID), written(flag(3, &p.Failed)), code(4, (*int32)(&p.Code)),
		text(5, &p.Message),
	}
}

// DecodePartitionedMetadata reads the body of a [TypePartitionedMetadataOK].
func DecodePartitionedMetadata(body []byte) (PartitionedMetadata, error) {
	var p PartitionedMetadata
	table := p.fields()
	err := read(body, "PARTITIONED_METADATA_RESPONSE", table[:])
	return p, err
}

// Append appends the body of p.
func (p PartitionedMetadata) Append(dst []byte) []byte {
	table := p.fields()
	return write(dst, table[:])
}

// TopicMigrated names the cluster that has taken over a topic.
type TopicMigrated struct {
	ResourceID  uint64
	URL, URLTLS string
}

// DecodeTopicMigrated reads the body of a [TypeTopicMigrated].
func DecodeTopicMigrated(body []byte) (TopicMigrated, error) {
	var t TopicMigrated
	table := [...]field{number(1, &t.ResourceID), text(3, &t.URL), text(4, &t.URLTLS)}
	err := read(body, "TOPIC_MIGRATED", table[:])
	return t, err
}

// DropFields appends body without the fields whose numbers are given.
func DropFields(dst, body []byte, nums ...protowire.Number) ([]byte, error) {
	return without(dst, body, "body", nums...)
}
