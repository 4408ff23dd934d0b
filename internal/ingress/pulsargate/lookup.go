package pulsargate

import (
	"net"
	"slices"
	"strings"

	"github.com/admitd/admitd/internal/pulsarwire"
)

// brokers is the allow-list of addresses, as host:port.
type brokers []string

// allows reports whether a client may be connected to address.
func (b brokers) allows(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return false
	}
	for _, allowed := range b {
		h, p, err := net.SplitHostPort(allowed)
		if err != nil || (p != port && p != "*") {
			continue
		}
		if strings.EqualFold(h, host) {
			return true
		}
		if suffix, found := strings.CutPrefix(h, "*."); found && len(host) > len(suffix)+1 &&
			strings.EqualFold(host[len(host)-len(suffix)-1:], "."+suffix) {
			return true
		}
	}
	return false
}

// named returns the addresses that stand for one broker each.
func (b brokers) named() []string {
	return slices.DeleteFunc(slices.Clone(b), func(address string) bool { return strings.Contains(address, "*") })
}

// brokerAddress returns the host:port of a broker's URL, or of a plain host:port.
func brokerAddress(url string) string {
	if _, rest, found := strings.Cut(url, "://"); found {
		url = rest
	}
	url, _, _ = strings.Cut(url, "/")
	return url
}

// rewriteLookup returns the body that the client gets in place of a lookup's
// answer: the same brokers, to be reached through the gate, or a refusal when
// they are not on the allow-list. An answer without addresses passes: nil.
func (s *settings) rewriteLookup(body []byte) ([]byte, error) {
	l, err := pulsarwire.DecodeLookupResponse(body)
	if err != nil || l.Response == pulsarwire.LookupFailed || (l.BrokerURL == "" && l.BrokerURLTLS == "") {
		return nil, err
	}
	// The client picks one of the two by whether it speaks TLS to the gate; what
	// matters is whether the gate speaks TLS to the broker.
	url := l.BrokerURL
	if s.BackendTLS != nil || url == "" {
		url = l.BrokerURLTLS
	}
	address := brokerAddress(url)
	if !s.brokers.allows(address) {
		s.Observer.Happened(EventBrokerRefused)
		refusal := pulsarwire.LookupResponse{
			Response: pulsarwire.LookupFailed, RequestID: l.RequestID, Code: pulsarwire.NotAllowedError,
			Message: "admitd: broker " + address + " is not on the gate's list of brokers",
		}
		return refusal.Append(nil), nil
	}
	return pulsarwire.RewriteLookup(nil, body, "pulsar://"+address, "pulsar+ssl://"+address)
}
