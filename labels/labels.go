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

// Error labels. A client may retry only when an error carries the first two.
const (
	// SystemOverloaded says that the server refused because it is overloaded:
	// back off before trying again.
	SystemOverloaded = "SystemOverloadedError"
	// Retryable says that no work ran, so that a retry is safe whatever the
	// operation is.
	Retryable = "RetryableError"
	// NoWritesPerformed says to MongoDB drivers that a write was not carried out by
	// this attempt: one that retries a write whose first attempt ended in a network
	// error reports that error, not this refusal. Only MongoDB's refusals carry it, and
	// only to drivers that do not take it for success; see package mongogate.
	NoWritesPerformed = "NoWritesPerformed"
)

// HTTP headers of a rejection and of the client's announcement.
const (
	// HeaderReason carries the [Reason] of a rejection.
	HeaderReason = "X-Admitd-Reason"
	// HeaderBackpressure is sent by clients that obey rejections.
	HeaderBackpressure = "X-Admitd-Backpressure"
	// HeaderAttempt is sent by clients: 1 with the first attempt of a request, 2 with
	// its first retry.
	HeaderAttempt = "X-Admitd-Attempt"
	// HeaderDeadline carries the client's remaining patience in milliseconds,
	// a decimal integer > 0.
	HeaderDeadline = "X-Admitd-Deadline-Ms"
)
