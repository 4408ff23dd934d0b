package labels

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// HelloPath is where a gate answers GET with a [Hello], on its ingress and on
// its admin port. A gate that drains answers 503 there instead, so that
// clients stop choosing it.
const HelloPath = "/v1/hello"

// WireVersion is the newest protocol version that this release speaks,
// counted as MongoDB counts its wire versions, so that a gate in front of a
// MongoDB server may pass on the server's own numbers.
const WireVersion = 21

// Bounds of a [Hello]; anything above is refused before it is used.
const (
	MaxHello      = 64 << 10 // bytes of the document
	MaxHelloHosts = 1000     // addresses in hosts
	MaxHelloTags  = 100      // tags of one server
)

// ErrNotHello is returned by [ParseHello] for bytes that are not a usable
// hello document.
var ErrNotHello = errors.New("labels: not a hello document")

// Role says what a server is to its deployment. The set is closed: an unknown
// role is read as [RoleOther], which no client chooses.
type Role string

// The roles, as they appear in a [Hello].
const (
	// RoleRouter: one of several equal gates, each good for any request. It is
	// the usual role of a gate, and what the zero value is written as.
	RoleRouter Role = "router"
	// RoleStandalone: the only server of its deployment.
	RoleStandalone Role = "standalone"
	// RolePrimary: the member of a set that takes writes.
	RolePrimary Role = "primary"
	// RoleSecondary: a member of a set that serves reads, perhaps stale ones.
	RoleSecondary Role = "secondary"
	// RoleArbiter: a member of a set that holds no data.
	RoleArbiter Role = "arbiter"
	// RoleOther: a member of a set that is not to be chosen: hidden, starting
	// or recovering.
	RoleOther Role = "other"
	// RoleGhost: reachable, but not yet a member of any set.
	RoleGhost Role = "ghost"
)

// Known reports whether r is one of the roles above.
func (r Role) Known() bool {
	switch r {
	case RoleRouter, RoleStandalone, RolePrimary, RoleSecondary, RoleArbiter, RoleOther, RoleGhost:
		return true
	}
	return false
}

// Load is how busy a gate is, in requests.
type Load struct {
	InFlight int64 `json:"inFlight"` // permits held now
	Limit    int64 `json:"limit"`    // permits that may be held, 0 = unlimited
	Headroom int64 `json:"headroom"` // permits still free; 0 when full or queueing
}

// Hello is what a server says of itself when a client asks whether it is
// there. Clients poll it to keep the map of their deployment and to measure
// the round trip.
type Hello struct {
	Role    Role     `json:"role"`
	Name    string   `json:"name,omitempty"`    // name of the ingress that answers, for logs
	SetName string   `json:"setName,omitempty"` // name of the set; empty outside a set
	Me      string   `json:"me,omitempty"`      // host:port under which the other members know this one
	Hosts   []string `json:"hosts,omitempty"`   // host:port of every member, this one included
	Primary string   `json:"primary,omitempty"` // host:port of the primary as this member believes it
	// Term counts elections; of two servers that claim to be primary, clients
	// believe the one with the higher term. 0 = not counted.
	Term int64             `json:"term,omitempty"`
	Tags map[string]string `json:"tags,omitempty"`
	// LastWriteDate is when the newest write that this server has applied was
	// made, in milliseconds since 1970; 0 = not known.
	LastWriteDate  int64 `json:"lastWriteDate,omitempty"`
	MinWireVersion int   `json:"minWireVersion"` // oldest protocol version understood
	MaxWireVersion int   `json:"maxWireVersion"` // newest protocol version understood, 0 = not told
	Load           *Load `json:"load,omitempty"` // nil when the server does not measure it
	// Backpressure says that rejections carry labels and hints that a client
	// may act on.
	Backpressure bool `json:"backpressure"`
}

// AppendJSON appends the document as JSON to b and returns the result. Keys,
// and the tags among them, come in a fixed order. The zero Role is written as
// [RoleRouter].
func (h *Hello) AppendJSON(b []byte) []byte {
	role := h.Role
	if role == "" {
		role = RoleRouter
	}
	b = appendString(append(b, `{"ok":1,"role":`...), string(role))
	b = appendField(b, `,"name":`, h.Name)
	b = appendField(b, `,"setName":`, h.SetName)
	b = appendField(b, `,"me":`, h.Me)
	b = h.appendHosts(b)
	b = appendField(b, `,"primary":`, h.Primary)
	if h.Term != 0 {
		b = strconv.AppendInt(append(b, `,"term":`...), h.Term, 10)
	}
	b = h.appendTags(b)
	if h.LastWriteDate != 0 {
		b = strconv.AppendInt(append(b, `,"lastWriteDate":`...), h.LastWriteDate, 10)
	}
	b = strconv.AppendInt(append(b, `,"minWireVersion":`...), int64(h.MinWireVersion), 10)
	b = strconv.AppendInt(append(b, `,"maxWireVersion":`...), int64(h.MaxWireVersion), 10)
	if h.Load != nil {
		b = strconv.AppendInt(append(b, `,"load":{"inFlight":`...), h.Load.InFlight, 10)
		b = strconv.AppendInt(append(b, `,"limit":`...), h.Load.Limit, 10)
		b = strconv.AppendInt(append(b, `,"headroom":`...), h.Load.Headroom, 10)
		b = append(b, '}')
	}
	b = strconv.AppendBool(append(b, `,"backpressure":`...), h.Backpressure)
	return append(b, '}')
}

func (h *Hello) appendHosts(b []byte) []byte {
	for i, host := range h.Hosts {
		if i == 0 {
			b = append(b, `,"hosts":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendString(b, host)
	}
	if len(h.Hosts) > 0 {
		b = append(b, ']')
	}
	return b
}

func (h *Hello) appendTags(b []byte) []byte {
	for i, key := range slices.Sorted(maps.Keys(h.Tags)) {
		if i == 0 {
			b = append(b, `,"tags":{`...)
		} else {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		b = appendString(b, h.Tags[key])
	}
	if len(h.Tags) > 0 {
		b = append(b, '}')
	}
	return b
}

// appendField appends key and value unless the value is empty.
func appendField(b []byte, key, value string) []byte {
	if value == "" {
		return b
	}
	return appendString(append(b, key...), value)
}

// ServeHello returns a handler that answers GET and HEAD with what current
// returns at that moment. A false from current means draining and is answered
// with 503. current is called once per request, from any goroutine.
func ServeHello(current func() (Hello, bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "hello answers GET only", http.StatusMethodNotAllowed)
			return
		}
		h, serving := current()
		if !serving {
			http.Error(w, Draining.Message(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(append(h.AppendJSON(nil), '\n')) // the client went away: nothing to do
	})
}

// ParseHello reads a hello document. Unknown fields are ignored and an unknown
// role is read as [RoleOther], so that newer gates can be read by older
// clients. A document that is larger than the bounds, that says ok is not 1 or
// that has no role is [ErrNotHello].
func ParseHello(b []byte) (Hello, error) {
	if len(b) > MaxHello {
		return Hello{}, fmt.Errorf("%w: %d bytes, at most %d", ErrNotHello, len(b), MaxHello)
	}
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' {
		return Hello{}, fmt.Errorf("%w: no JSON object", ErrNotHello)
	}
	var doc struct {
		OK *int `json:"ok"`
		Hello
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return Hello{}, fmt.Errorf("%w: %w", ErrNotHello, err)
	}
	h := doc.Hello
	switch {
	case doc.OK != nil && *doc.OK != 1:
		return Hello{}, fmt.Errorf("%w: ok is %d", ErrNotHello, *doc.OK)
	case h.Role == "":
		return Hello{}, fmt.Errorf("%w: no role", ErrNotHello)
	case len(h.Hosts) > MaxHelloHosts:
		return Hello{}, fmt.Errorf("%w: %d hosts, at most %d", ErrNotHello, len(h.Hosts), MaxHelloHosts)
	case len(h.Tags) > MaxHelloTags:
		return Hello{}, fmt.Errorf("%w: %d tags, at most %d", ErrNotHello, len(h.Tags), MaxHelloTags)
	}
	if !h.Role.Known() {
		h.Role = RoleOther
	}
	return h, nil
}
