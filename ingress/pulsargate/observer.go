package pulsargate

import "time"

// Observer is told what the limiter cannot count by itself. All strings are from
// closed sets or from the configuration, never from a client. The methods are
// called on the path of a message and must not block.
type Observer interface {
	// Limited counts a message that a limit did not let through at once. topic is
	// the Name of the TopicLimit that matches, or "default"; limit is one of the
	// Limit constants.
	Limited(topic, limit string)
	// Throttled is called when a producer may send again, with how long it could
	// not. reason is the String of a pulsarwire.Reason.
	Throttled(topic, reason string, d time.Duration)
	// Happened counts one of the Event constants.
	Happened(event string)
}

// The names of the limits, as [Observer] is told them.
const (
	LimitTopicMessages = "topic_messages"
	LimitTopicBytes    = "topic_bytes"
	LimitGroupMessages = "group_messages"
	LimitGroupBytes    = "group_bytes"
	LimitGateMessages  = "gate_messages"
	LimitGateBytes     = "gate_bytes"
	LimitRequestRate   = "request_rate" // of the limiter
	LimitConcurrency   = "concurrency"  // of the limiter
	LimitPending       = "connection_pending_messages"
	LimitHeldBytes     = "connection_held_bytes"
	LimitGateHeldBytes = "gate_held_bytes"
)

// The events that [Observer] is told.
const (
	EventPaused              = "paused"               // reading from a connection stopped
	EventNotified            = "notified"             // a ThrottleProducer was sent
	EventReceipt             = "receipt"              // and acknowledged in time
	EventReceiptLate         = "receipt_late"         // acknowledged after the wait
	EventReceiptMissing      = "receipt_missing"      // not acknowledged within the wait
	EventReceiptUnknown      = "receipt_unknown"      // an acknowledgement of nothing
	EventSendReceiptUnknown  = "send_receipt_unknown" // a broker's receipt for no message in flight
	EventProducerRefused     = "producer_refused"     // TooManyRequests
	EventBrokerRefused       = "broker_refused"       // an address outside the allow-list
	EventMigrationSuppressed = "migration_suppressed" // a TOPIC_MIGRATED that would lead around the gate
	EventStalled             = "stalled"              // closed after StallTimeout
	EventProtocolError       = "protocol_error"       // closed for a frame or command that cannot be
)

// Events returns every event in a fixed order.
func Events() []string {
	return []string{
		EventPaused, EventNotified, EventReceipt, EventReceiptLate, EventReceiptMissing, EventReceiptUnknown,
		EventSendReceiptUnknown, EventProducerRefused, EventBrokerRefused, EventMigrationSuppressed,
		EventStalled, EventProtocolError,
	}
}

// LimitNames returns the name of every limit in a fixed order.
func LimitNames() []string {
	return []string{
		LimitTopicMessages, LimitTopicBytes, LimitGroupMessages, LimitGroupBytes, LimitGateMessages,
		LimitGateBytes, LimitRequestRate, LimitConcurrency, LimitPending, LimitHeldBytes, LimitGateHeldBytes,
	}
}

// nobody observes nothing.
type nobody struct{}

// Limited implements [Observer].
func (nobody) Limited(string, string) {}

// Throttled implements [Observer].
func (nobody) Throttled(string, string, time.Duration) {}

// Happened implements [Observer].
func (nobody) Happened(string) {}
