package selection

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Defaults of the clocks of monitoring.
const (
	DefaultHeartbeat = 10 * time.Second       // between two hellos to the same server
	MinHeartbeat     = 500 * time.Millisecond // the least between two, however urgent
)

// ErrIncompatible is matched when a server speaks no protocol version that
// this client speaks.
var ErrIncompatible = errors.New("selection: incompatible wire version")

// TopologyType says how the servers of a deployment relate. The zero value is
// [TopologyUnknown].
type TopologyType uint8

// The topology types.
const (
	TopologyUnknown       TopologyType = iota // nothing found yet: no server suits
	Single                                    // one server, taken for everything
	Sharded                                   // equal routers
	LoadBalanced                              // one balancer, never polled
	ReplicaSetWithPrimary                     // a set that takes writes
	ReplicaSetNoPrimary                       // a set that serves reads at most
)

// topologyTypes returns the names in the order of the constants.
func topologyTypes() [6]string {
	return [...]string{
		"Unknown", "Single", "Sharded", "LoadBalanced", "ReplicaSetWithPrimary", "ReplicaSetNoPrimary",
	}
}

// String returns the name of t as the MongoDB specifications spell it.
func (t TopologyType) String() string {
	if names := topologyTypes(); int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("TopologyType(%d)", uint8(t))
}

// ParseTopologyType is the inverse of [TopologyType.String]. Case does not
// matter.
func ParseTopologyType(s string) (TopologyType, error) {
	for i, name := range topologyTypes() {
		if strings.EqualFold(name, s) {
			return TopologyType(i), nil
		}
	}
	return TopologyUnknown, fmt.Errorf("selection: no such topology type: %q", s)
}

// replicaSet reports whether t is one of the two types of a set.
func (t TopologyType) replicaSet() bool {
	return t == ReplicaSetWithPrimary || t == ReplicaSetNoPrimary
}

// Topology is a picture of a deployment at one moment. It is immutable once
// shared; all methods are safe for concurrent use.
type Topology struct {
	Type    TopologyType
	SetName string        // set the client wants, or the first it met; empty = none
	Servers []*Server     // in the order found; none is nil
	Wire    WireRange     // versions that the client speaks
	MaxTerm int64         // highest election seen; a primary of a lower one is stale
	Every   time.Duration // heartbeat, part of the staleness estimate; 0 = [DefaultHeartbeat]
}

// WireRange is a range of wire protocol versions, both ends included. The
// zero value is every version.
type WireRange struct {
	Min int
	Max int // 0 = no upper end
}

// heartbeat returns the time between two hellos.
func (t *Topology) heartbeat() time.Duration {
	if t.Every <= 0 {
		return DefaultHeartbeat
	}
	return t.Every
}

// Server returns the description of the server at address, or nil.
func (t *Topology) Server(address string) *Server {
	for _, s := range t.Servers {
		if s.Address == address {
			return s
		}
	}
	return nil
}

// Compatible returns nil when every available server speaks a version that the
// client speaks, else an error that matches [ErrIncompatible] and names the
// first that does not. Servers that tell no version are taken as compatible.
func (t *Topology) Compatible() error {
	for _, s := range t.Servers {
		switch {
		case !s.Type.Available() || s.MaxWireVersion == 0:
		case s.MaxWireVersion < t.Wire.Min:
			return fmt.Errorf("%w: server %s speaks up to %d, this client needs at least %d",
				ErrIncompatible, s.Address, s.MaxWireVersion, t.Wire.Min)
		case t.Wire.Max > 0 && s.MinWireVersion > t.Wire.Max:
			return fmt.Errorf("%w: server %s needs at least %d, this client speaks up to %d",
				ErrIncompatible, s.Address, s.MinWireVersion, t.Wire.Max)
		}
	}
	return nil
}

// available reports whether any server is believed to answer.
func (t *Topology) available() bool {
	for _, s := range t.Servers {
		if s.Type.Available() {
			return true
		}
	}
	return false
}

// primary returns the primary, or nil.
func (t *Topology) primary() *Server {
	for _, s := range t.Servers {
		if s.Type == RSPrimary {
			return s
		}
	}
	return nil
}

// String returns the type and every server with its state, for messages.
func (t *Topology) String() string {
	var b strings.Builder
	b.WriteString(t.Type.String())
	if t.SetName != "" {
		b.WriteString(" set " + t.SetName)
	}
	b.WriteString(" [")
	for i, s := range t.Servers {
		if i > 0 {
			b.WriteString("; ")
		}
		s.describe(&b)
	}
	b.WriteByte(']')
	return b.String()
}
