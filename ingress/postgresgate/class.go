package postgresgate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// checkClasses says what is wrong with [Options.Classes].
func checkClasses(c *ingress.Classes) error {
	if c == nil {
		return nil
	}
	for _, by := range c.By {
		if key, ok := strings.CutPrefix(by, "comment:"); by != "application" && (!ok || key == "") {
			return fmt.Errorf("postgresgate: class by %q: want application or comment:KEY", by)
		}
	}
	return nil
}

// setClass puts the class of a unit into its request. What continues a
// transaction is never refused, whatever its class.
func setClass(classes *ingress.Classes, f *facts, req *limiter.Request) {
	c := ingress.Claimant{Application: f.application, User: f.startup.user, Key: req.Key, Client: f.remote}
	for _, by := range classes.By {
		if key, ok := strings.CutPrefix(by, "comment:"); ok {
			c.Claim = labels.ParseClass(tag(f.statement.tags, key))
		} else {
			c.Claim = ingress.ClaimIn(f.application)
		}
		if c.Claim != labels.Unclassed {
			break
		}
	}
	c.Operation = func(rule int) bool {
		return slices.Contains(classes.Rules[rule].Operations, f.statement.op.String())
	}
	req.Class, req.Unclear = classes.Of(&c)
	if req.Class == labels.ExemptClass {
		req.Exempt = true
	}
}
