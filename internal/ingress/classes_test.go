package ingress_test

import (
	"net/netip"
	"testing"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/labels"
)

// A claim of anybody lowers the class; who is trusted, by address, user or
// application, gets what it asks for; what is no class is counted.
func TestClassOf(t *testing.T) {
	classes := &ingress.Classes{
		Default: labels.Critical,
		Trust:   ingress.Trust{Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Names: []string{"checkout"}},
		Rules: []ingress.ClassRule{
			{Operations: []string{"probe"}, Class: labels.ExemptClass},
			{Applications: []string{"batch"}, Partitions: []string{"night-*"}, Class: labels.Sheddable},
			{Users: []string{"reports"}, Class: labels.SheddablePlus},
		},
	}
	probe := func(rule int) bool { return rule == 0 }
	for name, tc := range map[string]struct {
		who     ingress.ClassFacts
		want    labels.Class
		unknown bool
	}{
		"nothing is known":             {want: labels.Critical},
		"anybody lowers":               {who: ingress.ClassFacts{Claim: labels.Sheddable}, want: labels.Sheddable},
		"nobody raises":                {who: ingress.ClassFacts{Claim: labels.CriticalPlus}, want: labels.Critical},
		"nobody exempts itself":        {who: ingress.ClassFacts{Claim: labels.ExemptClass}, want: labels.Critical},
		"no such class":                {who: ingress.ClassFacts{Claim: labels.UnknownClass}, want: labels.Critical, unknown: true},
		"trusted by address":           {who: ingress.ClassFacts{Claim: labels.CriticalPlus, Client: netip.MustParseAddr("10.1.2.3")}, want: labels.CriticalPlus},
		"another address":              {who: ingress.ClassFacts{Claim: labels.CriticalPlus, Client: netip.MustParseAddr("11.1.2.3")}, want: labels.Critical},
		"trusted by application":       {who: ingress.ClassFacts{Claim: labels.ExemptClass, Application: "checkout/2"}, want: labels.ExemptClass},
		"trusted by user":              {who: ingress.ClassFacts{Claim: labels.CriticalPlus, User: "checkout"}, want: labels.CriticalPlus},
		"a user's name has no rest":    {who: ingress.ClassFacts{Claim: labels.CriticalPlus, User: "checkout2"}, want: labels.Critical},
		"a rule by operation":          {who: ingress.ClassFacts{Operation: probe}, want: labels.ExemptClass},
		"a claim below an exemption":   {who: ingress.ClassFacts{Operation: probe, Claim: labels.Sheddable}, want: labels.ExemptClass},
		"a rule needs all of it":       {who: ingress.ClassFacts{Application: "batch-7", Key: "day-1"}, want: labels.Critical},
		"a rule by name and partition": {who: ingress.ClassFacts{Application: "batch-7", Key: "night-1"}, want: labels.Sheddable},
		"no claim above a rule":        {who: ingress.ClassFacts{User: "reports", Claim: labels.Critical}, want: labels.SheddablePlus},
	} {
		t.Run(name, func(t *testing.T) {
			if got, unknown := classes.Of(&tc.who); got != tc.want || unknown != tc.unknown {
				t.Errorf("Of(%+v) = %v, %v; want %v, %v", tc.who, got, unknown, tc.want, tc.unknown)
			}
		})
	}
}

// Free texts claim a class by name or by class=NAME, and nothing otherwise: most
// comments are comments.
func TestClaimIn(t *testing.T) {
	for text, want := range map[string]labels.Class{
		"":                             labels.Unclassed,
		"sheddable":                    labels.Sheddable,
		"nightly report":               labels.Unclassed,
		"nightly class=sheddable-plus": labels.SheddablePlus,
		"class='critical-plus',x='1'":  labels.CriticalPlus,
		"subclass=sheddable":           labels.Unclassed,
		"class=urgent":                 labels.UnknownClass,
		"class=":                       labels.UnknownClass,
		"class=exempt;":                labels.ExemptClass,
	} {
		if got := ingress.ClassIn(text); got != want {
			t.Errorf("ClaimIn(%q) = %v; want %v", text, got, want)
		}
	}
}

// A gate names the forms that it reads, and a form with a key needs one.
func TestClassesCheckBy(t *testing.T) {
	for by, want := range map[string]string{
		"application":   "",
		"comment:tier":  "",
		"comment:":      `class by "comment:": want application or comment:KEY`,
		"comment":       `class by "comment": want application or comment:KEY`,
		"applications":  `class by "applications": want application or comment:KEY`,
		"metadata:tier": `class by "metadata:tier": want application or comment:KEY`,
	} {
		got := ""
		if err := (&ingress.Classes{By: []string{"application", by}}).CheckBy("application", "comment:KEY"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("CheckBy of %q = %q; want %q", by, got, want)
		}
	}
	if err := (*ingress.Classes)(nil).CheckBy("application"); err != nil {
		t.Errorf("CheckBy of none = %v", err)
	}
}
