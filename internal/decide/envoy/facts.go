package envoy

import (
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// The keys of descriptor entries, and of bucket ids, that have a meaning of
// their own. All others are parts of the partition key.
const (
	// KeyPartition is the whole partition key; others are then left out of it.
	KeyPartition = "partition"
	// KeyOperation stands for the exemptions and costs of the ingress.
	KeyOperation = "operation"
	// KeyClass is the class of the work.
	KeyClass = "class"
	// KeyRequestID has a permit held under it, until a descriptor with the same
	// id and negative hits ends it. It must be the request's own: %REQ(x-request-id)%
	// where Envoy makes the id, and a client cannot.
	KeyRequestID = "request_id"
	// KeyTTL bounds for how long, such as 30s; one minute when it is left out.
	KeyTTL = "ttl"
	// KeyStatus is the status of the response, of a descriptor that ends a permit.
	KeyStatus = "status"
)

// Bounds of what an Envoy says.
const (
	maxDescriptors = 32
	maxEntries     = 32
	maxValue       = 256 // bytes of a value, and of a partition key
	permitTTL      = time.Minute
)

// facts are what one descriptor says.
type facts struct {
	ask     decide.Ask
	id      string // of the permit; "" = none is held
	ttl     time.Duration
	ends    bool // the permit, instead of asking for one
	looks   bool // asks whether one more would be admitted, and takes nothing
	outcome limiter.Outcome
}

// entry is a key and its value.
type entry struct{ key, value string }

// read returns what entries say of an ingress. The error is for the caller.
func read(ingress string, entries []entry) (f facts, err error) {
	f = facts{ask: decide.Ask{Ingress: ingress, MaxWait: limiter.NoWait}, ttl: permitTTL, outcome: limiter.Success}
	if len(entries) > maxEntries {
		return f, status.Errorf(codes.InvalidArgument, "%d entries, at most %d", len(entries), maxEntries)
	}
	var parts []string
	whole, id := "", ""
	for _, e := range entries {
		if len(e.value) > maxValue || !utf8.ValidString(e.value) {
			return f, status.Errorf(codes.InvalidArgument, "%.40q: at most %d bytes of UTF-8", e.key, maxValue)
		}
		switch e.key {
		case KeyPartition:
			whole = e.value
		case KeyOperation:
			f.ask.Operation = e.value
		case KeyClass:
			if f.ask.Class = labels.ParseClass(e.value); f.ask.Class == labels.UnknownClass {
				return f, status.Errorf(codes.InvalidArgument, "class: %.40q is none", e.value)
			}
		case KeyRequestID:
			id = e.value
		case KeyTTL:
			if f.ttl, err = time.ParseDuration(e.value); err != nil || f.ttl < time.Millisecond || f.ttl > decide.MaxTTL {
				return f, status.Errorf(codes.InvalidArgument, "ttl: %.40q is not a duration from 1ms to %v", e.value, decide.MaxTTL)
			}
		case KeyStatus:
			f.outcome = judge(e.value)
		default:
			parts = append(parts, e.value)
		}
	}
	f.ask.Partition = whole
	if whole == "" {
		f.ask.Partition = strings.Join(parts, "/")
	}
	if len(f.ask.Partition) > maxValue {
		return f, status.Errorf(codes.InvalidArgument, "partition: at most %d bytes", maxValue)
	}
	if id != "" {
		f.id = strings.Join([]string{"envoy", ingress, f.ask.Partition, id}, "\x00")
	}
	return f, nil
}

// judge returns what the status of a response says about the backend's load, as
// the HTTP gate has it: 503 and 504 say that it is overloaded, other failures
// nothing, and none that the client went away.
func judge(code string) limiter.Outcome {
	n, err := strconv.Atoi(code)
	switch {
	case err != nil || n == 0:
		return limiter.Ignored
	case n == http.StatusServiceUnavailable || n == http.StatusGatewayTimeout:
		return limiter.Dropped
	case n >= http.StatusInternalServerError || n == http.StatusTooManyRequests:
		return limiter.Ignored
	}
	return limiter.Success
}
