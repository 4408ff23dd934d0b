package pulsargate

import (
	"net"
	"strings"
)

// topicName is a topic as the gate knows it.
type topicName struct {
	full      string // persistent://tenant/namespace/topic-partition-0
	base      string // the same without the partition
	namespace string // tenant/namespace
	tenant    string
}

// parseTopic brings a topic into its full form, as brokers do, so that no
// spelling of it evades its limits. The names that Pulsar 5 has for a topic,
// topic://tenant/namespace/name, and for a segment of it, are that topic, and so
// are all segments together. Names that are no topics stay as they are; the
// broker refuses them.
func parseTopic(s string) topicName {
	domain, path, found := strings.Cut(s, "://")
	if !found {
		domain, path = "persistent", s
		if strings.Count(s, "/") == 0 {
			path = "public/default/" + s
		}
	}
	switch {
	case domain == "segment" && strings.Count(path, "/") >= 3: // its range and number come last
		domain, path = "persistent", path[:strings.LastIndexByte(path, '/')]
	case domain == "topic":
		domain = "persistent"
	}
	t := topicName{full: domain + "://" + path}
	t.base = t.full
	if i := strings.LastIndex(t.full, "-partition-"); i > 0 && isDigits(t.full[i+len("-partition-"):]) {
		t.base = t.full[:i]
	}
	parts := strings.SplitN(path, "/", 3)
	t.tenant, t.namespace = parts[0], parts[0]
	if len(parts) > 1 {
		t.namespace = parts[0] + "/" + parts[1]
	}
	return t
}

// isDigits reports whether s is a partition's number.
func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// partitionKey returns the limiter's key for messages to a topic from a client.
func partitionKey(by By, t *topicName, client net.Addr) string {
	switch by {
	case ByNamespace:
		return t.namespace
	case ByTenant:
		return t.tenant
	case ByClient:
		if host, _, err := net.SplitHostPort(client.String()); err == nil {
			return host
		}
		return client.String()
	default:
		return t.full
	}
}

// matches reports whether a pattern covers a topic.
func (t *topicName) matches(pattern string) bool {
	if prefix, found := strings.CutSuffix(pattern, "*"); found {
		if !strings.Contains(prefix, "://") {
			prefix = "persistent://" + prefix
		}
		return strings.HasPrefix(t.base, prefix)
	}
	p := parseTopic(pattern)
	return p.full == t.base || p.full == t.full
}
