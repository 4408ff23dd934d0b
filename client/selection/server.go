package selection

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// ServerType says what a server is to its deployment. The zero value is
// [Unknown].
type ServerType uint8

// The server types.
const (
	Unknown         ServerType = iota // not reached yet, or not any more
	Standalone                        // the only server of its deployment
	Mongos                            // one of several equal routers; what a gate usually is
	PossiblePrimary                   // not reached yet, but others say it is the primary
	RSPrimary                         // takes writes
	RSSecondary                       // serves reads, perhaps stale ones
	RSArbiter                         // holds no data
	RSOther                           // hidden, starting or recovering
	RSGhost                           // reachable, not yet in a set
	LoadBalancer                      // stands for servers that cannot be told apart
)

// serverTypes returns the names in the order of the constants.
func serverTypes() [10]string {
	return [...]string{
		"Unknown", "Standalone", "Mongos", "PossiblePrimary", "RSPrimary",
		"RSSecondary", "RSArbiter", "RSOther", "RSGhost", "LoadBalancer",
	}
}

// String returns the name of t as the MongoDB specifications spell it.
func (t ServerType) String() string {
	if names := serverTypes(); int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("ServerType(%d)", uint8(t))
}

// ParseServerType is the inverse of [ServerType.String]. Case does not matter.
func ParseServerType(s string) (ServerType, error) {
	for i, name := range serverTypes() {
		if strings.EqualFold(name, s) {
			return ServerType(i), nil
		}
	}
	return Unknown, fmt.Errorf("selection: no such server type: %q", s)
}

// Available reports whether a server of type t is believed to answer.
func (t ServerType) Available() bool { return t != Unknown && t != PossiblePrimary }

// Load is how busy a server said it was when it last answered.
type Load struct {
	InFlight, Limit, Headroom int64 // requests; Headroom is how many more would be admitted
	Reported                  bool  // false: the server does not say, and the rest means nothing
}

// Server describes one server at one moment. A Server that is part of a
// [Topology] is shared and must not be changed.
type Server struct {
	Address    string // host:port
	Type       ServerType
	RTT        RTT               // round trip of hello, averaged
	Tags       map[string]string // what operators say of it, for tag sets
	SetName    string            // set it belongs to; empty outside a set
	Hosts      []string          // members that it knows, host:port
	Primary    string            // primary that it believes in, host:port
	Me         string            // address under which its set knows it
	Term       int64             // election that made it primary; 0 = not counted
	LastWrite  time.Time         // when its newest write was made, by its set's clock; zero = not known
	LastUpdate time.Time         // when it last answered, by our clock
	Load       Load
	// Wire protocol versions that it speaks; MaxWireVersion 0 = not told.
	MinWireVersion, MaxWireVersion int
	// Err is why the server is Unknown; nil when it is available or was not
	// asked yet.
	Err error

	ops *atomic.Int64 // operations in progress; nil outside a View
}

// Operations returns how many operations selected this server and have not
// ended, over all selectors of the same [View].
func (s *Server) Operations() int64 {
	if s.ops == nil {
		return 0
	}
	return s.ops.Load()
}

// String returns the address, type, round trip and error, for messages.
func (s *Server) String() string {
	var b strings.Builder
	s.describe(&b)
	return b.String()
}

func (s *Server) describe(b *strings.Builder) {
	b.WriteString(s.Address)
	b.WriteByte(' ')
	b.WriteString(s.Type.String())
	if rtt, ok := s.RTT.Average(); ok {
		b.WriteString(" rtt ")
		b.WriteString(rtt.Round(10 * time.Microsecond).String())
	}
	if len(s.Tags) > 0 {
		b.WriteString(" tags ")
		b.WriteString(TagSet(s.Tags).String())
	}
	if s.Load.Reported {
		fmt.Fprintf(b, " load %d/%d", s.Load.InFlight, s.Load.Limit)
	}
	if s.Err != nil {
		fmt.Fprintf(b, " error %q", s.Err.Error())
	}
}
