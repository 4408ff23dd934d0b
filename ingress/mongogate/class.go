package mongogate

import (
	"slices"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// claim returns the class that the command claims.
func (ses *session) claim(by string) labels.Class {
	switch by {
	case "application":
		return ingress.ClaimIn(ses.who.application)
	case "readPreference":
		switch string(ses.f.readPref) {
		case "secondary", "secondaryPreferred", "nearest": // an answer that may be old is not urgent
			return labels.SheddablePlus
		}
		return labels.Unclassed
	default:
		if len(ses.f.class) > 0 {
			return labels.ParseClass(ses.f.class)
		}
		return ingress.ClaimIn(ses.f.comment)
	}
}

// classify puts the command's class into its request. What continues a
// transaction goes first: its beginning was admitted, and others wait for what it
// holds.
func (ses *session) classify(req *limiter.Request) {
	classes := ses.s.o.Classes
	if classes == nil {
		return
	}
	c := ingress.Claimant{Application: ses.who.application, User: ses.user, Key: req.Key, Client: ses.remote}
	for _, by := range classes.By {
		if c.Claim = ses.claim(by); c.Claim != labels.Unclassed {
			break
		}
	}
	c.Operation = func(rule int) bool {
		return slices.ContainsFunc(classes.Rules[rule].Operations, func(op string) bool { return string(ses.f.name) == op })
	}
	req.Class, req.Unclear = classes.Of(&c)
	switch {
	case req.Class == labels.ExemptClass:
		req.Exempt = true
	case ses.f.inTxn && !ses.f.startTxn && ses.continues():
		req.Class = labels.CriticalPlus
	}
	ses.class = req.Class
}
