package selection

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/admitd/admitd/labels"
)

// MaxServers is how many servers a topology may have, seeds and discovered
// ones together. Members named beyond it are not taken in.
const MaxServers = labels.MaxHelloHosts

// ErrSeeds is matched by every error about a seed list.
var ErrSeeds = errors.New("selection: invalid seed list")

// SeedOptions say what is known of a deployment before asking it. The zero
// value is ready for use: whatever the servers turn out to be.
type SeedOptions struct {
	SetName      string        // accept members of this set only; empty = the first set met
	Direct       bool          // one seed, used for everything whatever its role
	LoadBalanced bool          // one seed, a balancer: used for everything, never polled
	Wire         WireRange     // protocol versions that the client speaks; zero = all
	Heartbeat    time.Duration // time between two hellos; 0 = [DefaultHeartbeat], at least [MinHeartbeat]
}

// Seeds returns the topology that discovery starts from. Each seed is
// host:port; they are compared without regard to case. The error matches
// [ErrSeeds].
func Seeds(addresses []string, o SeedOptions) (*Topology, error) {
	t := &Topology{SetName: o.SetName, Wire: o.Wire, Every: o.Heartbeat}
	if o.Heartbeat != 0 {
		t.Every = max(o.Heartbeat, MinHeartbeat)
	}
	for _, a := range addresses {
		address, err := normalize(a)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSeeds, err)
		}
		draft{t}.add(address)
	}
	switch {
	case len(t.Servers) == 0:
		return nil, fmt.Errorf("%w: empty", ErrSeeds)
	case len(t.Servers) > MaxServers:
		return nil, fmt.Errorf("%w: %d servers, at most %d", ErrSeeds, len(t.Servers), MaxServers)
	case (o.Direct || o.LoadBalanced) && len(t.Servers) > 1:
		return nil, fmt.Errorf("%w: direct and load balanced take one server, got %d", ErrSeeds, len(t.Servers))
	case o.Direct && o.LoadBalanced:
		return nil, fmt.Errorf("%w: direct or load balanced, not both", ErrSeeds)
	case o.LoadBalanced && o.SetName != "":
		return nil, fmt.Errorf("%w: a load balancer has no set, got %q", ErrSeeds, o.SetName)
	case o.Direct:
		t.Type = Single
	case o.LoadBalanced:
		t.Type = LoadBalanced
		t.Servers[0].Type = LoadBalancer
	case o.SetName != "":
		t.Type = ReplicaSetNoPrimary
	}
	return t, nil
}

// normalize returns the address in lower case, or an error when it is not
// host:port: a host's name or IP address without a zone, and a decimal port. Anything
// else would become a part of the URL that a server is asked by.
func normalize(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isHost(host) {
		return "", fmt.Errorf("address %q is not host:port", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("address %q has no port from 1 to 65535", address)
	}
	return strings.ToLower(address), nil
}

// isHost reports whether host is an IP address, or of letters, digits, dots, hyphens
// and underscores, which may be beyond ASCII.
func isHost(host string) bool {
	if strings.Contains(host, ":") {
		a, err := netip.ParseAddr(host)
		return err == nil && a.Zone() == ""
	}
	return host != "" && utf8.ValidString(host) && !strings.ContainsFunc(host, func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// serverType translates the role of a hello.
func serverType(h *labels.Hello) ServerType {
	switch h.Role {
	case labels.RoleRouter:
		return Mongos
	case labels.RoleStandalone:
		return Standalone
	case labels.RolePrimary:
		return RSPrimary
	case labels.RoleSecondary:
		return RSSecondary
	case labels.RoleArbiter:
		return RSArbiter
	case labels.RoleGhost:
		return RSGhost
	case labels.RoleOther:
	}
	if h.SetName == "" {
		return RSGhost // of no set, so it must not make the topology one
	}
	return RSOther
}

// describe returns the description that follows from a hello.
func describe(address string, h *labels.Hello, rtt RTT, at time.Time) *Server {
	s := &Server{
		Address: address, Type: serverType(h), RTT: rtt, Tags: h.Tags, SetName: h.SetName,
		Term: h.Term, LastUpdate: at, MinWireVersion: h.MinWireVersion, MaxWireVersion: h.MaxWireVersion,
	}
	for _, host := range h.Hosts {
		if member, err := normalize(host); err == nil {
			s.Hosts = append(s.Hosts, member)
		}
	}
	s.Primary, s.Me = strings.ToLower(h.Primary), strings.ToLower(h.Me)
	if h.LastWriteDate != 0 {
		s.LastWrite = time.UnixMilli(h.LastWriteDate)
	}
	if h.Load != nil {
		s.Load = Load{InFlight: h.Load.InFlight, Limit: h.Load.Limit, Headroom: h.Load.Headroom, Reported: true}
	}
	return s
}

// with returns the picture after s was asked, following the MongoDB
// specification of server discovery. A server that is no longer a member
// changes nothing.
func (t *Topology) with(s *Server) *Topology {
	i := indexOf(t.Servers, s.Address)
	if i < 0 {
		return t
	}
	next := draft{new(*t)}
	next.Servers = slices.Clone(t.Servers)
	next.Servers[i] = s
	switch t.Type {
	case Single:
		if s.Type.Available() && t.SetName != "" && s.SetName != t.SetName {
			next.Servers[i] = s.unknown(fmt.Errorf("server is in set %q, wanted %q", s.SetName, t.SetName))
		}
	case LoadBalanced:
	case Sharded:
		if s.Type.Available() && s.Type != Mongos {
			next.remove(s.Address)
		}
	case TopologyUnknown:
		next.identify(s)
	case ReplicaSetWithPrimary, ReplicaSetNoPrimary:
		next.member(s)
	}
	return next.Topology
}

// draft is a picture that nobody else has seen yet, and that may be changed.
type draft struct{ *Topology }

// identify settles the type of the topology by its first answer.
func (t draft) identify(s *Server) {
	switch s.Type {
	case Standalone:
		if len(t.Servers) == 1 {
			t.Type = Single
		} else { // one of several seeds cannot be the only server
			t.remove(s.Address)
		}
	case Mongos:
		t.Type = Sharded
	case RSPrimary, RSSecondary, RSArbiter, RSOther:
		t.Type = ReplicaSetNoPrimary
		t.member(s)
	case Unknown, PossiblePrimary, RSGhost, LoadBalancer:
	}
}

// member takes in the answer of a server of a set.
func (t draft) member(s *Server) {
	switch s.Type {
	case Standalone, Mongos, LoadBalancer:
		t.remove(s.Address)
	case RSPrimary, RSSecondary, RSArbiter, RSOther:
		if t.SetName == "" {
			t.SetName = s.SetName
		}
		switch {
		case s.SetName != t.SetName:
			t.remove(s.Address)
		case s.Type == RSPrimary:
			t.elected(s)
		default:
			t.follower(s)
		}
	case Unknown, PossiblePrimary, RSGhost:
	}
	t.Type = ReplicaSetNoPrimary
	if t.primary() != nil {
		t.Type = ReplicaSetWithPrimary
	}
}

// follower takes in a member other than the primary. Only while there is no
// primary is its list of members believed.
func (t draft) follower(s *Server) {
	if t.primary() == nil {
		for _, host := range s.Hosts {
			t.add(host)
		}
	}
	if s.Me != "" && s.Me != s.Address {
		t.remove(s.Address) // its set knows it by another name, under which it was just added
		return
	}
	if i := indexOf(t.Servers, s.Primary); i >= 0 && t.Servers[i].Type == Unknown {
		guess := *t.Servers[i]
		guess.Type = PossiblePrimary
		t.Servers[i] = &guess
	}
}

// elected takes in a primary. Its list of members is the truth, and of two
// primaries the one of the later election is, or the one heard last.
func (t draft) elected(s *Server) {
	if s.Term != 0 && s.Term < t.MaxTerm {
		t.Servers[indexOf(t.Servers, s.Address)] = s.unknown(fmt.Errorf("stale primary: term %d, another has %d", s.Term, t.MaxTerm))
		return
	}
	t.MaxTerm = max(t.MaxTerm, s.Term)
	for i, other := range t.Servers {
		if other.Type == RSPrimary && other.Address != s.Address {
			t.Servers[i] = other.unknown(fmt.Errorf("no longer the primary: %s is", s.Address))
		}
	}
	if len(s.Hosts) == 0 {
		return
	}
	for _, host := range s.Hosts {
		t.add(host)
	}
	t.Servers = slices.DeleteFunc(t.Servers, func(m *Server) bool { return !slices.Contains(s.Hosts, m.Address) })
}

func indexOf(servers []*Server, address string) int {
	return slices.IndexFunc(servers, func(s *Server) bool { return s.Address == address })
}

// add takes in a server that was named but not asked yet.
func (t draft) add(address string) {
	if indexOf(t.Servers, address) < 0 && len(t.Servers) < MaxServers {
		t.Servers = append(t.Servers, &Server{Address: address})
	}
}

func (t draft) remove(address string) {
	t.Servers = slices.DeleteFunc(t.Servers, func(s *Server) bool { return s.Address == address })
}

// unknown returns what is left of s when it stops answering: its address, the
// operations in progress and the reason. The round trip starts anew.
func (s *Server) unknown(err error) *Server {
	return &Server{Address: s.Address, Err: err, ops: s.ops}
}
