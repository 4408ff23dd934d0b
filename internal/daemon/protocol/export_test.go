package protocol

import (
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/internal/ingress/postgresgate"
	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/topkeys"
)

// MongoCosts is mongoCosts, for tests.
var MongoCosts = mongoCosts

// DefaultsOf returns what an ingress of the configuration that names nothing
// gives its gate, and what the gate takes for its zeros.
func DefaultsOf(in *config.Ingress) (given, own any, err error) {
	switch in.Protocol {
	case "http":
		p := protocolHTTP()
		k := &Kit{HTTPObserver: func(string) httpgate.Observer { return nil }, TopKeys: func(string) *topkeys.Board { return nil }, Own: func(string) func(time.Duration) { return nil }}
		o, err := p.httpOptions(k, in, nil)
		return o.WithDefaults(), httpgate.Options{}.WithDefaults(), err
	case "mongodb":
		o, err := mongoOptions(in)
		return o.WithDefaults(), mongogate.Options{}.WithDefaults(), err
	case "postgres":
		o, err := postgresOptions(in)
		return o.WithDefaults(), postgresgate.Options{}.WithDefaults(), err
	default:
		o, err := pulsarOptions(in)
		return o.WithDefaults(), pulsargate.Options{}.WithDefaults(), err
	}
}

// PorchOf is the same for what every ingress gives to its door.
func ServerOptionsOf(in *config.Ingress) (given, own any, err error) {
	o, _, err := protocolHTTP().serverOptions(&Kit{}, in)
	return o.WithDefaults(), ingress.Options{}.WithDefaults(), err
}
