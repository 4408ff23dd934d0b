package pulsarwire

// Type is the type of a command, which is also the field that carries its body.
type Type int32

// The types that this package can read or write. The protocol has more; they
// pass as they are.
const (
	TypeConnect               Type = 2
	TypeConnected             Type = 3
	TypeProducer              Type = 5
	TypeSend                  Type = 6
	TypeSendReceipt           Type = 7
	TypeSendError             Type = 8
	TypeSuccess               Type = 13
	TypeError                 Type = 14
	TypeCloseProducer         Type = 15
	TypeCloseConsumer         Type = 16
	TypeProducerSuccess       Type = 17
	TypePing                  Type = 18
	TypePong                  Type = 19
	TypePartitionedMetadata   Type = 21
	TypePartitionedMetadataOK Type = 22
	TypeLookup                Type = 23
	TypeLookupResponse        Type = 24
	TypeTopicMigrated         Type = 68
	TypeScalableTopicUpdate   Type = 71 // Pulsar 5: where the segments of a topic are
	TypeTCAssignmentsUpdate   Type = 80 // Pulsar 5: where transactions are coordinated

	// TypeThrottleProducer tells a client to stop sending on one producer. Its
	// number lies far above what upstream uses (81 in 2026, growing by ones),
	// because the proposal names no number and its feature flag, 6, has since
	// been given to something else. It is sent only to clients that set
	// [FlagThrottleProducer].
	TypeThrottleProducer Type = 1001
	// TypeThrottleProducerReceipt is the client's answer.
	TypeThrottleProducerReceipt Type = 1002
)

// FlagThrottleProducer is the field of FeatureFlags by which a client announces
// that it understands [TypeThrottleProducer]. A gate strips it before it
// forwards CONNECT.
const FlagThrottleProducer = 1001

// The flags of Pulsar 5 that have brokers send addresses in other commands than
// a lookup's answer. A gate strips them from both sides, and clients do without.
const (
	FlagScalableTopics = 8
	FlagTCDiscovery    = 9
)

// Reason says which limit throttled a producer. The numbers are on the wire.
type Reason int32

// The reasons, in the order of the proposal.
const (
	TopicProduceQuotaExceeded         Reason = 0
	ResourceGroupProduceQuotaExceeded Reason = 1
	ConnectionPendingMessagesBreach   Reason = 2
	MessageBufferSizeBreach           Reason = 3
	BrokerProduceQuotaExceeded        Reason = 4
)

// String returns the reason as labels and logs carry it. Numbers outside the
// closed set are "unknown", so that a peer cannot make up labels.
func (r Reason) String() string {
	switch r {
	case TopicProduceQuotaExceeded:
		return "topic_produce_quota_exceeded"
	case ResourceGroupProduceQuotaExceeded:
		return "resource_group_produce_quota_exceeded"
	case ConnectionPendingMessagesBreach:
		return "connection_pending_messages_breach"
	case MessageBufferSizeBreach:
		return "message_buffer_size_breach"
	case BrokerProduceQuotaExceeded:
		return "broker_produce_quota_exceeded"
	default:
		return "unknown"
	}
}

// ConnectionLevel reports whether the cause concerns the whole connection. The
// connection is then paused anyway, so pauseForMillis is 0 and clients have
// nothing to wait for.
func (r Reason) ConnectionLevel() bool {
	return r != TopicProduceQuotaExceeded && r != ResourceGroupProduceQuotaExceeded
}

// ServerError is the code of an ERROR or SEND_ERROR command.
type ServerError int32

// The codes that this package's users send or judge.
const (
	PersistenceError ServerError = 2
	ServiceNotReady  ServerError = 6
	ChecksumError    ServerError = 9
	TooManyRequests  ServerError = 14
	ProducerBusy     ServerError = 16
	NotAllowedError  ServerError = 22
)
