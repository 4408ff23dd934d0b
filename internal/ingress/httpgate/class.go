package httpgate

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/target"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// ErrClassBy is wrapped by [New] for an entry of Options.Classes.By that means
// nothing.
var ErrClassBy = errors.New("httpgate: classes.by must be header:NAME, query:NAME or priority")

// classifier finds the classes of requests. It is immutable.
type classifier struct {
	classes *ingress.Classes                     // nil = there are none
	claims  []func(r *http.Request) labels.Class // by the entries of By
	rules   []target.Operations
	headers []string // canonical; those that claim
}

// newClassifier compiles c, which may be nil.
func newClassifier(c *ingress.Classes) (*classifier, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // no classes
	}
	k := &classifier{classes: c, rules: make([]target.Operations, len(c.Rules))}
	var problems []error
	for _, by := range c.By {
		kind, arg, _ := strings.Cut(by, ":")
		switch {
		case by == "priority":
			k.claims = append(k.claims, urgency)
			k.headers = append(k.headers, "Priority")
		case kind == "header" && strings.EqualFold(arg, "Host"):
			k.claims = append(k.claims, func(r *http.Request) labels.Class { return labels.ParseClass(site(r)) })
		case kind == "header" && arg != "":
			name := textproto.CanonicalMIMEHeaderKey(arg)
			k.claims = append(k.claims, func(r *http.Request) labels.Class { return labels.ParseClass(first(r.Header[name])) })
			k.headers = append(k.headers, name)
		case kind == "query" && arg != "":
			k.claims = append(k.claims, func(r *http.Request) labels.Class {
				return labels.ParseClass(target.Value(r.URL.RawQuery, arg))
			})
		default:
			problems = append(problems, fmt.Errorf("%w (%q)", ErrClassBy, by))
		}
	}
	for i := range c.Rules {
		for _, op := range c.Rules[i].Operations {
			problems = append(problems, k.rules[i].Add(op, 1))
		}
	}
	return k, errors.Join(problems...)
}

// urgency reads the urgency of RFC 9218, 0 to 7, of which 3 is usual.
func urgency(r *http.Request) labels.Class {
	for _, field := range r.Header["Priority"] {
		for item := range strings.SplitSeq(field, ",") {
			value, ok := strings.CutPrefix(strings.TrimSpace(item), "u=")
			value, _, _ = strings.Cut(value, ";")
			if !ok || len(value) != 1 || value[0] < '0' || value[0] > '7' {
				continue
			}
			return labels.CriticalPlus + labels.Class(value[0]-'0')/2
		}
	}
	return labels.Unclassed
}

// classify puts the class into a request whose key is known.
func (k *classifier) classify(r *http.Request, req *limiter.Request) {
	c := ingress.ClassFacts{Application: application(r)}
	if a, err := netip.ParseAddr(host(r.RemoteAddr)); err == nil {
		c.Client = a.Unmap()
	}
	c.Operation = func(rule int) bool { return k.holds(rule, r) }
	k.classes.Classify(req, &c, func(by int) labels.Class { return k.claims[by](r) })
}

// holds reports whether a request is of the operations of a rule. A rule that lowers
// holds for every reading of the path, or who writes /%62atch for /batch would go
// before the others; one that raises or exempts for a path that is read in one way.
func (k *classifier) holds(rule int, r *http.Request) bool {
	class, operations := k.classes.Rules[rule].Class, &k.rules[rule]
	if class == labels.ExemptClass || class <= k.classes.Default {
		_, ok := operations.Find(r.Method, r.URL.Path)
		return ok && target.IsClear(r.URL)
	}
	for path := range target.Readings(r.URL) {
		if _, ok := operations.Find(r.Method, path); ok {
			return true
		}
		if _, ok := operations.FindLoosely(r.Method, path); ok {
			return true
		}
	}
	return false
}

// application returns the name that a client gives itself.
func application(r *http.Request) string {
	if app := first(r.Header["X-Application"]); app != "" {
		return app
	}
	return first(r.Header["User-Agent"])
}
