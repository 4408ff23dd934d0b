package labcmd

import (
	"fmt"
	"os"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/limiter"
)

// candidate returns a configuration file's ingress as a contender.
func candidate(file, ingress string) (lab.Contender, error) {
	in, err := Ingress(file, ingress)
	if err != nil {
		return lab.Contender{}, err
	}
	c, err := Contender(in)
	if err != nil {
		return lab.Contender{}, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// Contender returns an ingress as a contender named "candidate"; an error says why
// its limits do not hold.
func Contender(in *config.Ingress) (lab.Contender, error) {
	if _, err := daemon.Policy(in, nil); err != nil {
		return lab.Contender{}, err
	}
	return lab.Gated("candidate", func(w *lab.World) *limiter.Policy { return repeatable(in, w) }), nil
}

// Ingress loads a configuration and returns its ingress of that name; "" will do
// where it has only one.
func Ingress(file, name string) (*config.Ingress, error) {
	cfg, err := config.Load(file, os.Environ())
	if err != nil {
		return nil, err
	}
	if name == "" && len(cfg.Ingresses) == 1 {
		return &cfg.Ingresses[0], nil
	}
	for i := range cfg.Ingresses {
		if cfg.Ingresses[i].Name == name {
			return &cfg.Ingresses[i], nil
		}
	}
	return nil, fmt.Errorf("%s has %d ingresses, none of them named %q: choose one with --ingress", file, len(cfg.Ingresses), name)
}

// repeatable returns the policy of an ingress whose limits take their randomness
// from the world. The policy was built before, so that it cannot fail now.
func repeatable(in *config.Ingress, w *lab.World) *limiter.Policy {
	p, err := daemon.Policy(in, func(s *algorithms.Settings) { s.Rand = w.Rand })
	if err != nil {
		panic(err) // see Contender
	}
	return p
}
