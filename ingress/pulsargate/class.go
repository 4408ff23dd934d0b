package pulsargate

import (
	"net/netip"
	"strings"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/pulsarwire"
)

// classify gives a new producer its class, for as long as it lives. body is that
// of its PRODUCER.
func (s *session) classify(p *producer, m *pulsarwire.Producer, body []byte) {
	classes := s.srv.o.Classes
	if classes == nil {
		return
	}
	c := ingress.Claimant{Application: m.Name, Key: p.key, Operation: func(int) bool { return false }}
	for _, by := range classes.By {
		if key, ok := strings.CutPrefix(by, "metadata:"); ok {
			c.Claim = labels.ParseClass(pulsarwire.ProducerProperty(body, key))
		} else {
			c.Claim = ingress.ClaimIn(m.Name)
		}
		if c.Claim != labels.Unclassed {
			break
		}
	}
	if a, err := netip.ParseAddrPort(s.remote.String()); err == nil {
		c.Client = a.Addr().Unmap()
	}
	p.class, p.unclear = classes.Of(&c)
	p.exempt = p.class == labels.ExemptClass
}
