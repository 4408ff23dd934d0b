package pulsargate

import (
	"errors"
	"strings"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// classify gives a new producer its class, for as long as it lives. body is that
// of its PRODUCER.
func (p *producer) classify(classes *ingress.Classes, m *pulsarwire.Producer, body []byte) {
	req := limiter.Request{Key: p.key}
	classes.Classify(&req, &ingress.ClassFacts{Application: m.Name, Client: p.s.client}, func(by int) labels.Class {
		if key, ok := strings.CutPrefix(classes.By[by], "metadata:"); ok {
			return labels.ParseClass(pulsarwire.ProducerProperty(body, key))
		}
		return ingress.ClassIn(m.Name)
	})
	p.class, p.unclear, p.exempt = req.Class, req.Unclear, req.Exempt
}

// saw tells who sent a message, once it is decided, if somebody wants to know.
func (p *producer) saw(err error) {
	board := p.s.o.TopKeys
	if !board.Due() {
		return
	}
	a := topkeys.Asker{Client: p.s.client, Operation: topkeys.Operation{Verb: "send", Object: p.topic.Name.Base}}
	_, refused := errors.AsType[*limiter.Rejection](err)
	board.Saw(&a, refused)
}
