package pulsargate

import (
	"net"

	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
)

// partitionKey returns the limiter's key for messages to a topic from a client.
func partitionKey(by By, t *topics.Name, client net.Addr) string {
	switch by {
	case ByNamespace:
		return t.Namespace
	case ByTenant:
		return t.Tenant
	case ByClient:
		if host, _, err := net.SplitHostPort(client.String()); err == nil {
			return host
		}
		return client.String()
	default:
		return t.Full
	}
}
