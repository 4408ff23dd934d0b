package client

import "context"

// Kind says what an operation does, which decides the switches that allow its
// retries.
type Kind uint8

const (
	// Generic is a command of unknown effect. It is retried only when both reads
	// and writes are. It is the zero value, because it promises least.
	Generic Kind = iota
	// Read changes nothing.
	Read
	// Write changes something.
	Write
	// Exempt is not subject to the policy: monitoring, round-trip-time pings,
	// connection establishment and authentication. It is run once, and neither
	// spends nor earns tokens.
	Exempt
)

// String returns the kind in lower case, as logs have it.
func (k Kind) String() string {
	switch k {
	case Read:
		return "read"
	case Write:
		return "write"
	case Exempt:
		return "exempt"
	case Generic:
	}
	return "generic"
}

// Operation is something to run. Run is required.
type Operation struct {
	Name string // for logs and hooks; a closed set is best
	Kind Kind
	// Run makes one attempt and returns nil when it succeeded. It is called again
	// for each retry, never concurrently. Its error is read by [FailureOf] or
	// [Options.Classify]. It should return when ctx ends.
	Run func(ctx context.Context, a *Attempt) error
}

// Attempt is one try of an operation. It is valid until Run returns, and not
// safe for concurrent use.
type Attempt struct {
	ID     uint64 // of the operation: the same for all its attempts, unique within the client
	Server string // set by Run once it knows; cleared before each attempt

	state    State
	failed   []string // servers that failed this operation
	retarget bool
}

// Number returns which attempt this is, from 0. A command that must be changed
// when it is sent again, as in a transaction, looks here.
func (a *Attempt) Number() int { return a.state.Attempt() }

// Progress says that this attempt achieved a part of the operation which will
// not be sent again, so that the rest counts its retries anew. A batch that was
// executed in part is the usual case; see [RunBatch].
func (a *Attempt) Progress() { a.state.Progress() }

// Deprioritized returns the servers that server selection should avoid, those
// that failed earlier attempts, each once, oldest first. With a policy that does not
// retarget the list is empty unless the topology is sharded. The slice is the
// client's and valid until Run returns.
func (a *Attempt) Deprioritized(sharded bool) []string {
	if sharded || a.retarget {
		return a.failed
	}
	return nil
}
