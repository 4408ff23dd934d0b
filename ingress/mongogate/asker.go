package mongogate

import "github.com/admitd/admitd/askers"

// saw tells who sent a command, once it is decided, if somebody wants to know.
func (ses *session) saw(err error) {
	board := ses.s.o.Askers
	if !board.Due() {
		return
	}
	if f := &ses.f; ses.last.Verb != string(f.name) || ses.last.Object != string(f.coll) { // most often it is the same again
		ses.last = askers.Operation{Verb: string(f.name), Object: string(f.coll)}
	}
	_, refused := asRejection(err)
	board.Saw(&askers.Asker{Client: ses.remote, Application: ses.who.application, User: ses.user, Operation: ses.last}, refused)
}
