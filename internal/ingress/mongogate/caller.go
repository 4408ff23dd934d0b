package mongogate

import (
	"slices"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// claim returns the class that a command claims.
func (p *peer) claim(by string, f *facts) labels.Class {
	switch by {
	case "application":
		return ingress.ClassIn(p.application)
	case "readPreference":
		switch string(f.readPref) {
		case "secondary", "secondaryPreferred", "nearest": // an answer that may be old is not urgent
			return labels.SheddablePlus
		}
		return labels.Unclassed
	default:
		if len(f.class) > 0 {
			return labels.ParseClass(f.class)
		}
		return ingress.ClassIn(f.comment)
	}
}

// classify puts the command's class into its request. What continues a
// transaction goes first: its beginning was admitted, and others wait for what it
// holds.
func (s *Server) classify(classes *ingress.Classes, f *facts, who *peer, req *limiter.Request) {
	if classes == nil {
		return
	}
	c := ingress.ClassFacts{Application: who.application, User: who.user, Client: who.remote}
	c.Operation = func(rule int) bool {
		return slices.ContainsFunc(classes.Rules[rule].Operations, func(op string) bool { return string(f.name) == op })
	}
	classes.Classify(req, &c, func(by int) labels.Class { return who.claim(classes.By[by], f) })
	if req.Class != labels.ExemptClass && f.txn.in && !f.txn.starts && s.ledger.continues(f) {
		req.Class = labels.CriticalPlus
	}
}

// tell tells a board, if it wants to know, who sent a command that is decided.
func (p *peer) tell(board *topkeys.Board, f *facts, err error) {
	if !board.Due() {
		return
	}
	if p.last.Verb != string(f.name) || p.last.Object != string(f.coll) { // most often it is the same again
		p.last = topkeys.Operation{Verb: string(f.name), Object: string(f.coll)}
	}
	_, refused := asRejection(err)
	board.Saw(&topkeys.Asker{Client: p.remote, Application: p.application, User: p.user, Operation: p.last}, refused)
}
