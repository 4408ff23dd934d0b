// Package labels holds the names that go over the wire when a request is
// refused: the code, the error labels, the closed set of reasons, and the
// rejection document that carries them in every protocol.
//
// It knows no limiter and no protocol, so that a client can import it without
// importing a gate.
package labels

// Code is the error code of every rejection. MongoDB servers and drivers know
// it as IngressRequestRateLimitExceeded.
const Code = 462

// CodeName is the symbolic name of [Code].
const CodeName = "IngressRequestRateLimitExceeded"

// Error labels. A client may retry only when an error carries both.
const (
	// SystemOverloaded says that the server refused because it is overloaded:
	// back off before trying again.
	SystemOverloaded = "SystemOverloadedError"
	// Retryable says that no work ran, so that a retry is safe whatever the
	// operation is.
	Retryable = "RetryableError"
)

// HTTP headers of a rejection and of the client's announcement.
const (
	// HeaderReason carries the [Reason] of a rejection.
	HeaderReason = "X-Admitd-Reason"
	// HeaderBackpressure is sent by clients that obey rejections.
	HeaderBackpressure = "X-Admitd-Backpressure"
	// HeaderDeadline carries the client's remaining patience in milliseconds,
	// a decimal integer > 0.
	HeaderDeadline = "X-Admitd-Deadline-Ms"
)

// Reason says why a request was refused. The set is closed; the zero value is
// not a reason.
type Reason string

// The reasons, as they appear in rejections, metrics and logs.
const (
	// RequestRate: the ingress or partition token bucket had no token left.
	RequestRate Reason = "request_rate"
	// ConcurrencyLimit: the partition's concurrency limit was reached and its
	// queue, if any, was full.
	ConcurrencyLimit Reason = "concurrency_limit"
	// QueueTimeout: the request waited for a permit for as long as it may.
	QueueTimeout Reason = "queue_timeout"
	// CostExceedsBurst: the request costs more than the bucket can ever hold.
	CostExceedsBurst Reason = "cost_exceeds_burst"
	// Draining: the gate is shutting down.
	Draining Reason = "draining"
)

// Reasons returns every reason in a fixed order.
func Reasons() []Reason {
	return []Reason{RequestRate, ConcurrencyLimit, QueueTimeout, CostExceedsBurst, Draining}
}

// Index returns the position of r in [Reasons], or -1 for an unknown reason.
func (r Reason) Index() int {
	switch r {
	case RequestRate:
		return 0
	case ConcurrencyLimit:
		return 1
	case QueueTimeout:
		return 2
	case CostExceedsBurst:
		return 3
	case Draining:
		return 4
	}
	return -1
}

// Labels returns the error labels that a rejection for r carries. A cost that
// exceeds the burst can never be admitted, so it is not marked retryable. The
// slice is the caller's.
func (r Reason) Labels() []string {
	if r == CostExceedsBurst {
		return []string{SystemOverloaded}
	}
	return []string{SystemOverloaded, Retryable}
}

// Retryable reports whether a retry of a request refused for r can succeed.
func (r Reason) Retryable() bool { return r != CostExceedsBurst }

// HTTPStatus returns the status code that HTTP gates answer with for r when
// the configuration says "auto".
func (r Reason) HTTPStatus() int {
	switch r {
	case RequestRate, CostExceedsBurst:
		return 429
	default:
		return 503
	}
}

// ProblemType returns the RFC 9457 problem type URI for r, from the IANA
// registry of HTTP problem types.
func (r Reason) ProblemType() string {
	if r.HTTPStatus() == 429 {
		return "https://iana.org/assignments/http-problem-types#quota-exceeded"
	}
	return "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
}

// Title returns the short human-readable summary for r.
func (r Reason) Title() string {
	switch r {
	case RequestRate:
		return "Ingress request rate limit exceeded"
	case CostExceedsBurst:
		return "Request cost exceeds the burst"
	case QueueTimeout:
		return "Timed out waiting for admission"
	case Draining:
		return "Ingress is draining"
	default:
		return "Concurrency limit exceeded"
	}
}

// Message returns the error message for r, as errmsg and detail carry it. The
// one for the request rate is word for word what MongoDB servers answer.
func (r Reason) Message() string {
	switch r {
	case RequestRate:
		return "Rate limiter 'ingressRequestRateLimiter' rate exceeded"
	case CostExceedsBurst:
		return "Rate limiter 'ingressRequestRateLimiter' can never admit this request: its cost exceeds the burst"
	case QueueTimeout:
		return "Concurrency limiter 'partitionConcurrencyLimiter' queue wait exceeded"
	case Draining:
		return "Ingress is draining and admits no new requests"
	default:
		return "Concurrency limiter 'partitionConcurrencyLimiter' limit exceeded"
	}
}
