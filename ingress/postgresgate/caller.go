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
	c := ingress.Claimant{Application: f.application, User: f.startup.user, Key: req.Key, Client: f.remote}
	for _, by := range classes.By {
		if key, ok := strings.CutPrefix(by, "comment:"); ok {
			c.Claim = labels.ParseClass(f.task.Tag(key))
		} else {
			c.Claim = ingress.ClaimIn(f.application)
		}
		if c.Claim != labels.Unclassed {
			break
		}
	}
	c.Operation = func(rule int) bool {
		return slices.Contains(classes.Rules[rule].Operations, f.task.Op.String())
	}
	req.Class, req.Unclear = classes.Of(&c)
	if req.Class == labels.ExemptClass {
		req.Exempt = true
	}
}

// saw tells who sent a unit, once it is decided, if somebody wants to know.
func (s *session) saw(st *task, err error) {
	board := s.srv.o.Askers
	if !board.Due() {
		return
	}
	s.mu.Lock()
	application := s.back.application
	s.mu.Unlock()
	_, refused := errors.AsType[*limiter.Rejection](err)
	board.Saw(&askers.Asker{
		Client: s.remote, Application: application, User: s.who.user,
		Operation: askers.Operation{Verb: st.Op.String(), Object: s.who.database},
	}, refused)
}
