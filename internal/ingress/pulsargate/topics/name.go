package topics

import "strings"

// Name is a topic as the gate knows it.
type Name struct {
	Full      string // persistent://tenant/namespace/topic-partition-0
	Base      string // the same without the partition
	Namespace string // tenant/namespace
	Tenant    string
}

// Parse brings a topic into its full form, as brokers do, so that no
// spelling of it evades its limits. The names that Pulsar 5 has for a topic,
// topic://tenant/namespace/name, and for a segment of it, are that topic, and so
// are all segments together. Names that are no topics stay as they are; the
// broker refuses them.
func Parse(s string) Name {
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
	t := Name{Full: domain + "://" + path}
	t.Base = t.Full
	if i := strings.LastIndex(t.Full, "-partition-"); i > 0 && isDigits(t.Full[i+len("-partition-"):]) {
		t.Base = t.Full[:i]
	}
	parts := strings.SplitN(path, "/", 3)
	t.Tenant, t.Namespace = parts[0], parts[0]
	if len(parts) > 1 {
		t.Namespace = parts[0] + "/" + parts[1]
	}
	return t
}

// isDigits reports whether s is a partition's number.
func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Matches reports whether a pattern covers a topic.
func (t *Name) Matches(pattern string) bool {
	if prefix, found := strings.CutSuffix(pattern, "*"); found {
		if !strings.Contains(prefix, "://") {
			prefix = "persistent://" + prefix
		}
		return strings.HasPrefix(t.Base, prefix)
	}
	p := Parse(pattern)
	return p.Full == t.Base || p.Full == t.Full
}
