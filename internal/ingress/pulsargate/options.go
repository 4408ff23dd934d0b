package pulsargate

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/limiter"
)

// Options describe a [Server]. Only Backend is required.
type Options struct {
	// Backend is the host:port of the broker, or of the service in front of
	// several, that clients reach when they name none.
	Backend string
	// BackendTLS dials brokers with TLS; nil = plain TCP. An empty ServerName is
	// filled in from the address.
	BackendTLS *tls.Config
	// Brokers are the further addresses that lookups may name and clients may
	// ask for, as host:port. A host may begin with "*.", which stands for any
	// labels, and a port may be "*". Backend is always allowed. Everything else
	// is refused, so that the gate is no open proxy.
	Brokers []string
	// By says what a partition of the concurrency limiter is.
	By By
	// Classes says who goes first; nil = nobody. Its By are metadata:KEY, of the
	// metadata that a producer announces itself with, and producer, its name.
	Classes *ingress.Classes
	// Method says how a producer that is over its limit is slowed down.
	Method Method
	// Limits at the start; [Server.SetLimits] changes them.
	Limits Limits
	// ReceiptWait is how long a client may take to acknowledge a
	// ThrottleProducer before the gate stops reading from it; 0 = 100 ms.
	ReceiptWait time.Duration
	// MinPause is the shortest pause of a topic or resource group that is over
	// its rate, so that clients are not told to wait a hundred times a second;
	// 0 = 100 ms, [NoPause] = none.
	MinPause time.Duration
	// MaxMessageSize in bytes bounds what clients may send; 0 = 5 MiB. Brokers
	// that announce more are overruled, so that clients split in time.
	MaxMessageSize int
	// DialTimeout bounds connecting to a broker, and how long a client may take
	// for its CONNECT; 0 = 10 s.
	DialTimeout time.Duration
	// StallTimeout is how long a peer may leave a frame half sent, or what was
	// written to it unread, before its connection is closed. A MiB may take 16 s
	// longer; 0 = 60 s.
	StallTimeout time.Duration
	// CancelAbandoned closes the connection to the broker as soon as the client
	// has left, although messages have no receipt yet. Otherwise they hold their
	// permits until they have, and the broker keeps the producers until then.
	CancelAbandoned bool
	// Dial connects to a broker, before TLS; nil = TCP.
	Dial relay.DialFunc
	// Counts counts what the backend answers; nil = nobody does.
	Counts *ingress.Counts
	// Askers counts who makes the load; nil = nobody does.
	TopKeys *topkeys.Board
	// Observer is told what the limiter cannot count; nil = nobody.
	Observer Observer
	// Log is told how connections end and brokers answer, as by [relay.Options]; nil
	// = nobody is.
	Log *slog.Logger
}

// NoPause is an Options.MinPause that lets a pause be as short as it comes.
const NoPause time.Duration = -1

// By says what identifies a partition.
type By uint8

// What may identify a partition. The zero value is the topic.
const (
	ByTopic     By = iota // persistent://tenant/namespace/topic-partition-0
	ByNamespace           // tenant/namespace
	ByTenant              // tenant
	ByClient              // the client's address, without its port
)

// Method says how a producer that is over its limit is slowed down.
type Method uint8

// The methods. The zero value is Auto.
const (
	// Auto notifies clients that announced support for ThrottleProducer, and
	// holds the frames of the throttled producer in any case.
	Auto Method = iota
	// Hold never notifies.
	Hold
	// Pause stops reading from the whole connection, as brokers do. It is there
	// to compare with.
	Pause
)

// Limits are what [Server.SetLimits] can change while the gate runs.
type Limits struct {
	// Mode of the limits in this struct; the limiter has its own. Shadow and Off
	// never slow anyone down. Bounds on memory hold in every mode.
	Mode limiter.Mode
	// Gate limits all topics together.
	Gate topics.PublishRate
	// Topic limits each topic that no entry of Topics matches.
	Topic  topics.PublishRate
	Topics []topics.Limit
	Groups []topics.Group

	// MaxPending bounds the messages of one connection that were forwarded and
	// have no receipt yet. At the bound the gate stops reading until half of
	// them have, as brokers do. As many may be held; there it stops reading until
	// there is room for the next. 0 = 1000.
	MaxPending int
	// MaxHeldBytes bounds the frames of one connection that are held; 0 = 16 MiB.
	// A frame that does not fit waits in the client: the gate stops reading.
	MaxHeldBytes int
	// MaxGateHeldBytes bounds the frames held over all connections; 0 = 256 MiB.
	MaxGateHeldBytes int
	// MaxProducers bounds the producers of one connection; 0 = 10,000. Further
	// ones are refused with TooManyRequests.
	MaxProducers int
	// MaxTopics bounds the topics whose rates are kept apart; 0 = 10,000.
	// Further ones share one.
	MaxTopics int
}

// WithDefaults returns o with what stands for its zeros.
func (o Options) WithDefaults() Options {
	o.Limits = o.Limits.WithDefaults()
	o.ReceiptWait = ingress.Or(o.ReceiptWait, 100*time.Millisecond)
	if o.MinPause == 0 {
		o.MinPause = 100 * time.Millisecond
	}
	o.MaxMessageSize = ingress.Or(o.MaxMessageSize, pulsarwire.DefaultMaxMessageSize)
	o.DialTimeout = ingress.Or(o.DialTimeout, 10*time.Second)
	o.StallTimeout = ingress.Or(o.StallTimeout, time.Minute)
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// WithDefaults returns l with what stands for its zeros.
func (l Limits) WithDefaults() Limits {
	l.MaxPending = ingress.Or(l.MaxPending, 1000)
	l.MaxHeldBytes = ingress.Or(l.MaxHeldBytes, 16<<20)
	l.MaxGateHeldBytes = ingress.Or(l.MaxGateHeldBytes, 256<<20)
	l.MaxProducers = ingress.Or(l.MaxProducers, 10_000)
	l.MaxTopics = ingress.Or(l.MaxTopics, 10_000)
	return l
}

// rates returns those of the limits that a table of topics enforces.
func (l *Limits) rates() topics.Rates {
	return topics.Rates{Gate: l.Gate, Topic: l.Topic, Topics: l.Topics, Groups: l.Groups, MaxTopics: l.MaxTopics}
}

// Observer is told what the limiter cannot count by itself. All strings are from
// closed sets or from the configuration, never from a client. The methods are
// called on the path of a message and must not block.
type Observer interface {
	// Limited counts a message that a limit did not let through at once. topic is
	// the Name of the [topics.Limit] that matches, or "default"; limit is one of
	// the Limit constants, or the name of a rate.
	Limited(topic, limit string)
	// Throttled is called when a producer may send again, with how long it could
	// not. reason is the String of a pulsarwire.Reason.
	Throttled(topic, reason string, d time.Duration)
	// Happened counts one of the Event constants.
	Happened(event string)
}

// The names of the limits, as [Observer] is told them, beside those of the rates:
// [topics.TopicMessages] and its like.
const (
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
	EventAddressesSuppressed = "addresses_suppressed" // a command of Pulsar 5 that would
	EventStalled             = "stalled"              // closed after StallTimeout
	EventProtocolError       = "protocol_error"       // closed for a frame or command that cannot be
)

// Events returns every event in a fixed order.
func Events() []string {
	return []string{
		EventPaused, EventNotified, EventReceipt, EventReceiptLate, EventReceiptMissing, EventReceiptUnknown,
		EventSendReceiptUnknown, EventProducerRefused, EventBrokerRefused, EventMigrationSuppressed, EventAddressesSuppressed,
		EventStalled, EventProtocolError,
	}
}

// nobody observes nothing.
type noObserver struct{}

// Limited implements [Observer].
func (noObserver) Limited(string, string) {}

// Throttled implements [Observer].
func (noObserver) Throttled(string, string, time.Duration) {}

// Happened implements [Observer].
func (noObserver) Happened(string) {}
