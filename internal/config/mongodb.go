package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// MongoDB configures what only a MongoDB gate needs.
type MongoDB struct {
	// What keeps drivers from walking around the gate.
	Topology Topology `yaml:"topology" reload:"connections"`
	// Backends beside the first one, host:port; connections are spread in
	// turn, and one that cannot be reached is left out for a while. For
	// topology mode loadBalanced.
	MoreBackends []string `yaml:"moreBackends" single:"true" reload:"connections"`
	// How long connecting to the backend may take, TLS included.
	DialTimeout Duration `yaml:"dialTimeout" default:"5s" min:"1ms" max:"10m" reload:"connections"`
	// How long a client may take to send its first whole frame.
	HandshakeTimeout Duration `yaml:"handshakeTimeout" default:"10s" min:"1ms" max:"10m" reload:"connections"`
	// How long a frame may stand still, on its way in or out; a MiB may take 16s
	// longer. A client that does not read its replies is cut off after it.
	FrameTimeout Duration `yaml:"frameTimeout" default:"30s" min:"1ms" max:"1h" reload:"connections"`
	// Largest frame, checked before anything is allocated for it.
	MaxMessageBytes Size `yaml:"maxMessageBytes" default:"46891KiB" min:"64KiB" max:"1GiB" reload:"connections"`
	// How much of a frame is held while its facts are looked for. What stands
	// behind it in a larger frame is not seen.
	IdentifyWindow Size `yaml:"identifyWindow" default:"256KiB" min:"64KiB" max:"64MiB" reload:"connections"`
	// Charges a command whose request and reply are worth more tokens than it
	// paid, one token for so many bytes; 0 = off.
	ReplyBytesPerToken Size `yaml:"replyBytesPerToken" default:"0" min:"0" max:"1GiB"`
	// Holds the permit of a getMore while it waits for what is to come, in a
	// change stream or a tailable cursor that awaits data.
	HoldStreams bool `yaml:"holdStreams" default:"false"`
	// How excess commands are answered.
	Refusal MongoRefusal `yaml:"refusal"`
	// Answers configureFailPoint (failCommand) and killAllSessions in the
	// gate. For tests only: any client can then make the gate fail commands.
	TestCommands bool `yaml:"testCommands" default:"false"`
}

// Topology says how replies to hello are treated.
type Topology struct {
	// How clients find the servers. auto: standalone servers and mongos pass,
	// members of a replica set are refused. direct: everything passes, for clients
	// that all connect with directConnection=true. members: addresses are rewritten.
	// loadBalanced: for clients that connect with loadBalanced=true.
	Mode string `yaml:"mode" default:"auto" enum:"auto direct members loadBalanced"`
	// For mode members: each member's address, as the replica set spells it,
	// to the address that clients reach its gate by. Others are left out of
	// hello.
	Members map[string]string `yaml:"members"`
}

// MongoRefusal says how excess commands are answered.
type MongoRefusal struct {
	// Sends the label RetryableError, as a server with
	// ingressRequestRateLimiterAllowRetries does.
	AllowRetries bool `yaml:"allowRetries" default:"true"`
	// Longest wait in the limiter's queues of commands whose client announced
	// that it retries; 0s = as long as the queues allow, negative = none.
	WaitAnnounced Duration `yaml:"waitAnnounced" default:"0s" min:"-1s" max:"1h"`
	// The same for clients that announced nothing and will not retry.
	WaitSilent Duration `yaml:"waitSilent" default:"0s" min:"-1s" max:"1h"`
}

// protocolMongoDB is what the configuration knows of MongoDB.
func protocolMongoDB() *Protocol {
	return &Protocol{
		Name: "mongodb", HostPort: true,
		By: []PartKind{
			{"database", nil},
			{"collection", nil},
			{"command", nil},
			{"application", nil},
			{"driver", nil},
			{"user", nil},
			{"client", prefixLength},
			{"readPreference", nil},
			{"comment", nil},
		},
		Claims: []PartKind{{"comment", nil}, {"application", nil}, {"readPreference", nil}},
		Costs:  true, Users: true, Exempts: true, Strangers: true, Operation: commandName, Classes: mongoClasses(),
		check: func(v validator, path string, in *Ingress) {
			if in.MongoDB != nil {
				checkMongodb(v, path+".mongodb", in.MongoDB)
			}
		},
	}
}

func prefixLength(arg string, given bool) string {
	if bits, err := strconv.Atoi(arg); given && (err != nil || bits < 1 || bits > 128) {
		return "takes a prefix length from 1 to 128, such as client:24"
	}
	return ""
}

func commandName(op string) string {
	if !isToken(op) || slices.Contains(mongoClasses(), op) {
		return "is not the name of a command"
	}
	return ""
}

// checkMongodb checks the block of an ingress whose backend is given.
func checkMongodb(v validator, path string, m *MongoDB) {
	t, at := &m.Topology, path+".topology"
	switch {
	case t.Mode == "members" && len(t.Members) == 0:
		v.relate("is required for mode members", nil, at+".members", at+".mode")
	case t.Mode != "members" && len(t.Members) > 0:
		v.relate("belongs to mode members only", nil, at+".members", at+".mode")
	}
	clients := map[string]string{}
	for _, member := range slices.Sorted(maps.Keys(t.Members)) {
		p := join(at+".members", member)
		if member == "" || !dialable(member) {
			v.relate("must be host:port on both sides", member, p)
		}
		client := t.Members[member]
		v.dialAddress(p, client)
		if other, twice := clients[client]; twice {
			v.relate(fmt.Sprintf("is the address for %s too", other), client, p)
		}
		clients[client] = member
	}
	if len(m.MoreBackends) > 0 && t.Mode != "loadBalanced" {
		v.relate("belongs to topology mode loadBalanced only", nil, path+".moreBackends", at+".mode")
	}
	for i, b := range m.MoreBackends {
		v.dialAddress(v.at(path+".moreBackends", i), b)
	}
}

// mongoClasses are the words that stand for many commands in cost.byOperation.
func mongoClasses() []string { return []string{"read", "write", "admin", "release", "other"} }
