package postgresgate

import (
	"errors"
	"slices"
	"strings"

	"github.com/admitd/admitd/askers"
	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// setClass puts the class of a unit into its request. What continues a
// transaction is never refused, whatever its class.
func setClass(classes *ingress.Classes, f *facts, req *limiter.Request) {
	c := ingress.Claimant{Application: f.application, User: f.startup.user, Client: f.remote}
	c.Operation = func(rule int) bool {
		return slices.Contains(classes.Rules[rule].Operations, f.task.Op.String())
	}
	classes.Classify(req, &c, func(by int) labels.Class {
		if key, ok := strings.CutPrefix(classes.By[by], "comment:"); ok {
			return labels.ParseClass(f.task.Tag(key))
		}
		return ingress.ClaimIn(f.application)
	})
}

// saw tells who sent a unit, once it is decided, if somebody wants to know.
func (s *Server) saw(f *facts, err error) {
	board := s.o.Askers
	if !board.Due() {
		return
	}
	_, refused := errors.AsType[*limiter.Rejection](err)
	board.Saw(&askers.Asker{
		Client: f.remote, Application: f.application, User: f.startup.user,
		Operation: askers.Operation{Verb: f.task.Op.String(), Object: f.startup.database},
	}, refused)
}
