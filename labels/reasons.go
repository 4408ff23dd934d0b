package labels

import (
	"slices"
	"strings"
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
	// Shed: there is no room for a request of this class, which makes way for
	// those that matter more.
	Shed Reason = "shed"
	// Draining: the gate is shutting down.
	Draining Reason = "draining"
)

// What is the same for several reasons.
const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

	rateLimiter        = "Rate limiter 'ingressRequestRateLimiter' "
	concurrencyLimiter = "Concurrency limiter 'partitionConcurrencyLimiter' "
)

// row is everything that follows from a reason.
type row struct {
	reason  Reason
	status  int    // over HTTP
	problem string // URI of RFC 9457
	title   string
	message string
	byRate  bool // a bucket refused: its rate is told
	never   bool // a retry cannot succeed
	leaving bool // the gate is going away: connections are closed
}

// reasons is the one place that knows what a reason means. A new one is a row
// here, a line where it is decided, and a sentence in the documents.
var reasons = []row{ //nolint:gochecknoglobals // a table
	{
		reason: RequestRate, status: 429, problem: quotaExceeded, byRate: true,
		title:   "Ingress request rate limit exceeded",
		message: rateLimiter + "rate exceeded", // word for word what MongoDB servers answer
	},
	{
		reason: ConcurrencyLimit, status: 503, problem: reducedCapacity,
		title: "Concurrency limit exceeded", message: concurrencyLimiter + "limit exceeded",
	},
	{
		reason: QueueTimeout, status: 503, problem: reducedCapacity,
		title: "Timed out waiting for admission", message: concurrencyLimiter + "queue wait exceeded",
	},
	{
		reason: CostExceedsBurst, status: 429, problem: quotaExceeded, byRate: true, never: true,
		title:   "Request cost exceeds the burst",
		message: rateLimiter + "can never admit this request: its cost exceeds the burst",
	},
	{
		reason: Shed, status: 503, problem: reducedCapacity,
		title: "Shed in favour of more important requests", message: concurrencyLimiter + "sheds requests of this class",
	},
	{
		reason: Draining, status: 503, problem: reducedCapacity, leaving: true,
		title: "Ingress is draining", message: "Ingress is draining and admits no new requests",
	},
}

// Reasons returns every reason in a fixed order.
func Reasons() []Reason {
	all := make([]Reason, len(reasons))
	for i := range reasons {
		all[i] = reasons[i].reason
	}
	return all
}

// Index returns the position of r in [Reasons], or -1 for an unknown reason.
func (r Reason) Index() int {
	return slices.IndexFunc(reasons, func(row row) bool { return row.reason == r })
}

// row returns what follows from r; an unknown reason is worded as the general
// one, that there is no capacity.
func (r Reason) row() *row {
	if i := r.Index(); i >= 0 {
		return &reasons[i]
	}
	return ConcurrencyLimit.row()
}

// Words returns r for a person to read.
func (r Reason) Words() string { return strings.ReplaceAll(string(r), "_", " ") }

// Labels returns the error labels that a rejection for r carries. What can never
// be admitted is not marked retryable. The slice is the caller's.
func (r Reason) Labels() []string {
	if !r.Retryable() {
		return []string{SystemOverloaded}
	}
	return []string{SystemOverloaded, Retryable}
}

// Retryable reports whether a retry of a request refused for r can succeed.
func (r Reason) Retryable() bool { return !r.row().never }

// ByRate reports whether a token bucket refused.
func (r Reason) ByRate() bool { return r.row().byRate }

// HTTPStatus returns the status code that HTTP gates answer with for r when
// the configuration says "auto".
func (r Reason) HTTPStatus() int { return r.row().status }

// ProblemType returns the RFC 9457 problem type URI for r, from the IANA
// registry of HTTP problem types.
func (r Reason) ProblemType() string { return r.row().problem }

// Title returns the short human-readable summary for r.
func (r Reason) Title() string { return r.row().title }

// Message returns the error message for r, as errmsg and detail carry it.
func (r Reason) Message() string { return r.row().message }
