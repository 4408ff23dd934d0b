package pulsargate

import (
	"errors"
	"strings"

	"github.com/admitd/admitd/askers"
	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/pulsarwire"
)

// classify gives a new producer its class, for as long as it lives. body is that
// of its PRODUCER.
func (p *producer) classify(classes *ingress.Classes, m *pulsarwire.Producer, body []byte) {
	if classes == nil {
		return
	}
	c := ingress.Claimant{Application: m.Name, Key: p.key, Client: p.s.client, Operation: func(int) bool { return false }}
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
	p.class, p.unclear = classes.Of(&c)
	p.exempt = p.class == labels.ExemptClass
}

// saw tells who sent a message, once it is decided, if somebody wants to know.
func (p *producer) saw(err error) {
	board := p.s.srv.o.Askers
	if !board.Due() {
		return
	}
	a := askers.Asker{Client: p.s.client, Operation: askers.Operation{Verb: "send", Object: p.topic.Name.Base}}
	_, refused := errors.AsType[*limiter.Rejection](err)
	board.Saw(&a, refused)
}
