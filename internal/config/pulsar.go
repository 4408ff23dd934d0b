package config

import (
	"net"
	"strconv"
	"strings"
)

// Pulsar configures what only a Pulsar gate needs.
type Pulsar struct {
	// Further broker addresses, host:port, that lookups may name and clients
	// may ask for. A host may begin with "*." and a port may be "*". The
	// backend is always allowed, everything else refused.
	Brokers []string `yaml:"brokers" single:"true" reload:"connections"`
	// How a producer over its limit is slowed down. auto: clients that know
	// ThrottleProducer are told, and the frames of that producer are held. hold:
	// nobody is told. pause: the whole connection is not read, as brokers do.
	Method string `yaml:"method" default:"auto" enum:"auto hold pause" reload:"connections"`
	// Milliseconds a client may take to acknowledge a ThrottleProducer before
	// the gate stops reading from it.
	ThrottleProducerReceiptWaitTimeMillis int `yaml:"throttleProducerReceiptWaitTimeMillis" default:"100" min:"1" max:"60000" reload:"connections"`
	// Shortest pause of a topic or resource group that is over its rate; 0s =
	// none.
	MinPause Duration `yaml:"minPause" default:"100ms" min:"0s" max:"10s"`
	// Largest message that clients may send.
	MaxMessageSize Size `yaml:"maxMessageSize" default:"5MiB" min:"64KiB" max:"256MiB" reload:"connections"`
	// How long connecting to a broker, or a client's CONNECT, may take.
	DialTimeout Duration `yaml:"dialTimeout" default:"10s" min:"1ms" max:"10m" reload:"connections"`
	// How long a peer may leave a frame half sent, or unread; a MiB may take 16 s
	// longer.
	StallTimeout Duration `yaml:"stallTimeout" default:"1m" min:"1ms" max:"1h" reload:"connections"`
	// What may be published over all topics together.
	PublishRate PublishRate `yaml:"publishRate"`
	// What may be published to each topic that no entry of topics matches.
	TopicPublishRate PublishRate `yaml:"topicPublishRate"`
	// Rates of each topic that a pattern matches; the first match counts.
	Topics []TopicRate `yaml:"topics"`
	// Rates that several topics share.
	ResourceGroups []ResourceGroup `yaml:"resourceGroups"`
	// Messages of one connection without a receipt, or held, at which the gate
	// stops reading from it.
	MaxPending int `yaml:"maxPending" default:"1000" min:"1" max:"1000000"`
	// Bytes of one connection that may be held.
	MaxHeldBytes Size `yaml:"maxHeldBytes" default:"16MiB" min:"64KiB" max:"4GiB"`
	// Bytes that may be held over all connections.
	MaxGateHeldBytes Size `yaml:"maxGateHeldBytes" default:"256MiB" min:"64KiB" max:"64GiB"`
	// Producers of one connection; further ones are refused with
	// TooManyRequests.
	MaxProducers int `yaml:"maxProducers" default:"10000" min:"1" max:"1000000"`
	// Topics whose rates are kept apart; further ones share one.
	MaxTopics int `yaml:"maxTopics" default:"10000" min:"1" max:"1000000"`
}

// PublishRate is a limit on what may be published.
type PublishRate struct {
	// Messages per second; unlimited and 0 are no bound.
	Messages float64 `yaml:"messages" default:"0" zero:"unlimited" min:"0" max:"1e9"`
	// Bytes per second, whole frames; unlimited and 0 are no bound.
	Bytes Size `yaml:"bytes" default:"0" zero:"unlimited" min:"0" max:"1TiB"`
	// Depth of both buckets in seconds of their rate.
	BurstSeconds float64 `yaml:"burstSeconds" default:"1" min:"0.001" max:"86400"`
}

// TopicRate is the limit of each topic that a pattern matches.
type TopicRate struct {
	// Unique name; a label of metrics.
	Name string `yaml:"name" required:"true"`
	// Full topic name without partition; a trailing * matches any rest.
	Match string `yaml:"match" required:"true"`
	// Messages per second; unlimited and 0 are no bound.
	Messages float64 `yaml:"messages" default:"0" zero:"unlimited" min:"0" max:"1e9"`
	// Bytes per second, whole frames; unlimited and 0 are no bound.
	Bytes Size `yaml:"bytes" default:"0" zero:"unlimited" min:"0" max:"1TiB"`
	// Depth of both buckets in seconds of their rate.
	BurstSeconds float64 `yaml:"burstSeconds" default:"1" min:"0.001" max:"86400"`
}

// ResourceGroup is a limit that several topics share.
type ResourceGroup struct {
	// Unique name; a label of metrics.
	Name string `yaml:"name" required:"true"`
	// Topics of the group, spelled as in topics. A topic may belong to several
	// groups.
	Match []string `yaml:"match" required:"true" single:"true"`
	// Messages per second; unlimited and 0 are no bound.
	Messages float64 `yaml:"messages" default:"0" zero:"unlimited" min:"0" max:"1e9"`
	// Bytes per second, whole frames; unlimited and 0 are no bound.
	Bytes Size `yaml:"bytes" default:"0" zero:"unlimited" min:"0" max:"1TiB"`
	// Depth of both buckets in seconds of their rate.
	BurstSeconds float64 `yaml:"burstSeconds" default:"1" min:"0.001" max:"86400"`
}

// protocolPulsar is what the configuration knows of Pulsar.
func protocolPulsar() *Protocol {
	return &Protocol{
		Name: "pulsar", Schemes: []string{"pulsar", "pulsar+ssl"}, HostPort: true,
		By: []PartKind{{"topic", nil}, {"namespace", nil}, {"tenant", nil}, {"client", nil}}, Parts: 1, AlwaysBy: true,
		Claims: []PartKind{{"metadata", wordOf("metadata")}, {"producer", nil}},
		check: func(v validator, path string, in *Ingress) {
			if in.Pulsar != nil {
				checkPulsar(v, path+".pulsar", in.Pulsar)
			}
		},
	}
}

func checkPulsar(v validator, path string, p *Pulsar) {
	for i, b := range p.Brokers {
		if !brokerPattern(b) {
			v.relate("must be host:port; the host may begin with *. and the port be *", b, v.at(path+".brokers", i))
		}
	}
	names, matches := map[string]int{}, map[string]int{}
	for i := range p.Topics {
		t, at := &p.Topics[i], element(path+".topics", i)
		v.name(at+".name", t.Name)
		checkTopic(v, at+".match", t.Match)
		v.unique(names, i, path+".topics", "name", t.Name)
		v.unique(matches, i, path+".topics", "match", t.Match)
	}
	groups := map[string]int{}
	for i := range p.ResourceGroups {
		g, at := &p.ResourceGroups[i], element(path+".resourceGroups", i)
		v.name(at+".name", g.Name)
		v.unique(groups, i, path+".resourceGroups", "name", g.Name)
		if len(g.Match) == 0 {
			v.relate("needs at least one topic", nil, at+".match")
		}
		for j, m := range g.Match {
			checkTopic(v, v.at(at+".match", j), m)
		}
	}
	if p.MaxHeldBytes > p.MaxGateHeldBytes {
		v.relate("must be at most maxGateHeldBytes", p.MaxHeldBytes, path+".maxHeldBytes", path+".maxGateHeldBytes")
	}
}

// checkTopic checks a topic pattern.
func checkTopic(v validator, path, match string) {
	switch star := strings.IndexByte(match, '*'); {
	case match == "":
		v.relate("must not be empty", nil, path)
	case star >= 0 && star < len(match)-1:
		v.relate("may hold * at its end only", match, path)
	case star < 0 && strings.Contains(match, "://") && strings.Count(match, "/") != 4:
		v.relate("must be a full topic name, such as persistent://tenant/namespace/topic", match, path)
	}
}

// brokerPattern reports whether s is host:port with the wildcards that an
// allow-list may have.
func brokerPattern(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil && port != "*" {
		return false
	}
	host = strings.TrimPrefix(host, "*.")
	return net.ParseIP(host) != nil || hostname(host)
}

// dialable reports whether s is host:port.
func dialable(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}
