package postgresgate

import (
	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/ingress/postgresgate/sqltext"
	"github.com/admitd/admitd/limiter"
)

// task is what a client asks for: what its text says, and what it has in common with
// others.
type task struct {
	sqltext.Statement
	shape *limiter.Shape // nil = nothing is learned of it
}

// unknown is a task of which nothing is known.
func unknown() task { return task{Statement: sqltext.Statement{Op: sqltext.OpOther, N: 1}} }

// parse reads a text that ends in a zero, or of which the end is not shown.
func (s *session) parse(text []byte) task {
	return task{Statement: sqltext.ParseShown(text), shape: s.shape(text)}
}

// shape returns what a text has in common with others: itself without comments and
// literals. nil = the gate learns nothing.
func (s *session) shape(text []byte) *limiter.Shape {
	l := s.srv.learner
	if l == nil || !l.Learns() {
		return nil
	}
	if shown, _, whole := cutString(text); whole {
		text = shown
	}
	s.shapeBuf = sqltext.Normalise(s.shapeBuf[:0], text)
	return l.Shape(uint64(ingress.Fold(ingress.NewFingerprint(), s.shapeBuf)), func() string { return string(s.shapeBuf) })
}
