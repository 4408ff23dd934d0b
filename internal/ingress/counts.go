package ingress

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

// Response says how a backend answered a request. The set is closed.
type Response uint8

// The responses: by class of status in HTTP, and whether it was an error in all
// other protocols. Informational responses are none.
const (
	Response2xx Response = iota
	Response3xx
	Response4xx
	Response5xx
	ResponseOK
	ResponseError

	responses int = iota
)

// Responses returns every response in a fixed order.
func Responses() []Response {
	return []Response{Response2xx, Response3xx, Response4xx, Response5xx, ResponseOK, ResponseError}
}

// String returns the response as it appears in metrics.
func (r Response) String() string {
	switch r {
	case Response2xx:
		return "2xx"
	case Response3xx:
		return "3xx"
	case Response4xx:
		return "4xx"
	case Response5xx:
		return "5xx"
	case ResponseOK:
		return "ok"
	default:
		return "error"
	}
}

// Failed reports whether the response says that the backend failed, or that it
// refused what it was asked.
func (r Response) Failed() bool { return r == Response5xx || r == ResponseError }

// ResponseTo returns the response of a status of HTTP.
func ResponseTo(status int) Response {
	switch {
	case status < 300:
		return Response2xx
	case status < 400:
		return Response3xx
	case status < 500:
		return Response4xx
	}
	return Response5xx
}

// Attempt says which attempt of its client a request is, as that tells. The set is closed.
type Attempt uint8

// The attempts.
const (
	AttemptFirst Attempt = iota
	AttemptRetry

	attempts int = iota
)

// Attempts returns every attempt in a fixed order.
func Attempts() []Attempt { return []Attempt{AttemptFirst, AttemptRetry} }

// String returns the attempt as it appears in metrics.
func (a Attempt) String() string {
	if a == AttemptRetry {
		return "retry"
	}
	return "first"
}

// invalidStatuses are the statuses with which a gate answers what it does not
// forward whatever the load is; 0 stands for all others.
var invalidStatuses = [...]int{ //nolint:gochecknoglobals // constant
	http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusMisdirectedRequest,
	http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported, 0,
}

// Counts are what an ingress counts over all servers that it has one after the
// other, so that no count begins anew when a reload replaces the server. The zero
// value is ready. It is safe for concurrent use.
type Counts struct {
	open     atomic.Int64 // connections that are open or wait to come in
	queued   atomic.Int64
	accepted atomic.Uint64
	refused  [refusals]atomic.Uint64

	responses [responses]atomic.Uint64
	invalid   [len(invalidStatuses)]atomic.Uint64
	attempts  [attempts]atomic.Uint64
}

// Attempted counts a request that says which attempt it is. A nil Counts counts nothing.
func (c *Counts) Attempted(a Attempt) {
	if c != nil {
		c.attempts[a].Add(1)
	}
}

// Responded counts an answer of a backend. A nil Counts counts nothing.
func (c *Counts) Responded(r Response) {
	if c != nil {
		c.responses[r].Add(1)
	}
}

// Invalid counts a request that the gate answered by itself with a status, because it
// is not one that could be forwarded. A nil Counts counts nothing.
func (c *Counts) Invalid(status int) {
	if c == nil {
		return
	}
	for i, s := range invalidStatuses {
		if s == status || s == 0 {
			c.invalid[i].Add(1)
			return
		}
	}
}

// Responses returns the answers of backends so far, without zeros.
func (c *Counts) Responses() map[Response]uint64 {
	all := map[Response]uint64{}
	for i := range c.responses {
		if n := c.responses[i].Load(); n > 0 {
			all[Response(i)] = n
		}
	}
	return all
}

// status adds to s what is counted over all servers.
func (c *Counts) status(s *Status) {
	s.Queued = c.queued.Load()
	s.Open, s.Accepted = max(c.open.Load()-s.Queued, 0), c.accepted.Load()
	s.Refused, s.Responses = make([]uint64, refusals), make([]uint64, responses)
	for i := range c.refused {
		s.Refused[i] = c.refused[i].Load()
	}
	for i := range c.responses {
		s.Responses[i] = c.responses[i].Load()
	}
	s.Attempts = make([]uint64, attempts)
	for i := range c.attempts {
		s.Attempts[i] = c.attempts[i].Load()
	}
	for i := range c.invalid {
		if n := c.invalid[i].Load(); n > 0 {
			s.Invalid = append(s.Invalid, InvalidCount{invalidStatuses[i], n})
		}
	}
}

// InvalidCount is how many requests a gate answered with a status because they could
// not be forwarded.
type InvalidCount struct {
	Status int // 0 = any other
	Count  uint64
}

// Name returns the status as it appears in metrics.
func (i InvalidCount) Name() string {
	if i.Status == 0 {
		return "other"
	}
	return strconv.Itoa(i.Status)
}

// AllCounts are the [Counts] of every ingress by its name. The zero value has none. It
// is safe for concurrent use.
type AllCounts struct {
	mu sync.Mutex // guards of
	of map[string]*Counts
}

// Of returns the counts of an ingress, always the same.
func (a *AllCounts) Of(ingress string) *Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.of[ingress]
	if c == nil {
		c = &Counts{}
		if a.of == nil {
			a.of = map[string]*Counts{}
		}
		a.of[ingress] = c
	}
	return c
}
