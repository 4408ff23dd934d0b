package postgresgate

import (
	"errors"

	"github.com/admitd/admitd/askers"
	"github.com/admitd/admitd/limiter"
)

// saw tells who sent a unit, once it is decided, if somebody wants to know.
func (s *session) saw(st *statement, err error) {
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
		Operation: askers.Operation{Verb: st.op.String(), Object: s.who.database},
	}, refused)
}
