package postgresgate_test

import (
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/postgresgate"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// A statement is classed by its session's application_name, by a tag of its
// comment, or by a rule for roles and operations.
func TestClassOfStatement(t *testing.T) {
	o := postgresgate.Options{Classes: &ingress.Classes{
		By: []string{"comment:class", "application"}, Default: labels.Critical,
		Trust: ingress.Trust{Names: []string{"boss"}},
		Rules: []ingress.ClassRule{{Users: []string{"reports"}, Operations: []string{"select"}, Class: labels.Sheddable}},
	}}
	for name, tc := range map[string]struct {
		parameters []string
		query      string
		want       labels.Class
	}{
		"nothing":                 {nil, "select 1", labels.Critical},
		"application_name":        {[]string{"application_name", "etl class=sheddable-plus"}, "select 1", labels.SheddablePlus},
		"a tag":                   {[]string{"application_name", "etl"}, "select 1 /*class='sheddable'*/", labels.Sheddable},
		"a role and what it asks": {[]string{"user", "reports"}, "select 1", labels.Sheddable},
		"another operation":       {[]string{"user", "reports"}, "update t set a = 1", labels.Critical},
		"nobody raises":           {nil, "select 1 /*class='critical-plus'*/", labels.Critical},
		"the boss does":           {[]string{"user", "boss"}, "select 1 /*class='critical-plus'*/", labels.CriticalPlus},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := limiter.New("pg", &limiter.Policy{Classes: &limiter.Classes{}}, limiter.Options{})
				sc := stageBefore(t, g, nil, o)
				c, _, _ := sc.login(tc.parameters...)
				say(c, pg('Q', tc.query+"\x00"))
				synctest.Wait()
				for _, n := range g.Status().Classes {
					if want := n.Class == tc.want; (n.Admitted == 1) != want {
						t.Errorf("admitted of %v: %d; want one of %v", n.Class, n.Admitted, tc.want)
					}
				}
			})
		})
	}
}
