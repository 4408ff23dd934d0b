package ingress

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Classes says of which class a request is: the same in every gate, from what a
// gate reads of it. The zero value says nothing of any request, which then is of
// the default of its policy. It is immutable and safe for concurrent use.
type Classes struct {
	// By are what a class is claimed with, as the gate spells them; the first that
	// says anything counts. None: nobody can claim one.
	By []string
	// Trust are who may claim any class, and not only one that matters less than
	// the one they have without it.
	Trust Trust
	// Default is the class of requests that no rule is for.
	Default labels.Class
	// Rules give requests their class; the first that matches counts.
	Rules []ClassRule
}

// Trust names clients that are believed.
type Trust struct {
	Clients []netip.Prefix
	// Names are users, or the beginnings of applications' names.
	Names []string
}

// ClassRule gives requests a class that match each of its lists; an empty list
// matches every request.
type ClassRule struct {
	Operations   []string // as the gate spells them; see [ClassFacts.Operation]
	Applications []string // beginnings of names
	Users        []string
	Partitions   []string // keys; a trailing * stands for any rest
	Class        labels.Class
}

// ClassFacts is what a gate knows of a request that may have a class.
type ClassFacts struct {
	Claim       labels.Class // Unclassed = it claims none; [Classes.Classify] asks for it
	Application string
	User        string
	Key         string // of the partition; [Classes.Classify] knows it
	Client      netip.Addr
	// Operation reports whether the request is one of the operations of a rule; nil =
	// of none.
	Operation func(rule int) bool
}

// Given reports whether there is anything to say of any request.
func (c *Classes) Given() bool { return c != nil && len(c.By)+len(c.Rules) > 0 }

// CheckBy says which of By the gate cannot read: its forms are the words that it
// knows, NAME:KEY for those with a key of their own.
func (c *Classes) CheckBy(forms ...string) error {
	if c == nil {
		return nil
	}
	for _, by := range c.By {
		if !slices.ContainsFunc(forms, func(form string) bool {
			prefix, keyed := strings.CutSuffix(form, "KEY")
			return by == form && !keyed || keyed && len(by) > len(prefix) && strings.HasPrefix(by, prefix)
		}) {
			last := len(forms) - 1
			return fmt.Errorf("class by %q: want %s or %s", by, strings.Join(forms[:last], ", "), forms[last])
		}
	}
	return nil
}

// Classify puts its class into a request of which the key is known. claim tells
// what an entry of By claims; the first that says anything counts. No classes, nil,
// say nothing.
func (c *Classes) Classify(req *limiter.Request, r *ClassFacts, claim func(by int) labels.Class) {
	if c == nil {
		return
	}
	for by := range c.By {
		if r.Claim = claim(by); r.Claim != labels.Unclassed {
			break
		}
	}
	r.Key = req.Key
	req.Class, req.Unclear = c.Of(r)
	req.Exempt = req.Exempt || req.Class == labels.ExemptClass
}

// Of returns the class of a request, and whether it claimed one that there is
// not.
func (c *Classes) Of(r *ClassFacts) (class labels.Class, unknown bool) {
	own := c.ruled(r)
	switch {
	case r.Claim == labels.Unclassed:
		return own, false
	case r.Claim == labels.UnknownClass:
		return own, true
	case c.Trust.believes(r):
		return r.Claim, false
	case r.Claim != labels.ExemptClass && own != labels.ExemptClass && r.Claim > own:
		return r.Claim, false // who makes way needs no leave
	}
	return own, false
}

// ruled returns the class of a request that claims none.
func (c *Classes) ruled(r *ClassFacts) labels.Class {
	for i := range c.Rules {
		rule := &c.Rules[i]
		if (len(rule.Operations) == 0 || r.Operation != nil && r.Operation(i)) && begins(rule.Applications, r.Application) &&
			(len(rule.Users) == 0 || slices.Contains(rule.Users, r.User)) && keyed(rule.Partitions, r.Key) {
			return rule.Class
		}
	}
	return c.Default
}

// believes reports whether any claim of the request's counts.
func (t *Trust) believes(r *ClassFacts) bool {
	for _, n := range t.Names {
		if r.User == n || r.Application != "" && strings.HasPrefix(r.Application, n) {
			return true
		}
	}
	return In(t.Clients, r.Client)
}

// begins reports whether one of the beginnings is that of the name.
func begins(all []string, name string) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(p string) bool { return strings.HasPrefix(name, p) })
}

// keyed reports whether one of the patterns is for the key.
func keyed(all []string, key string) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(p string) bool {
		rest, open := strings.CutSuffix(p, "*")
		return p == key || open && strings.HasPrefix(key, rest)
	})
}

// ClassIn returns the class that a free text claims: a text that is the name of a
// class, or holds class=NAME, quoted or not. Any other text claims none.
func ClassIn[T ~string | ~[]byte](text T) labels.Class {
	b := []byte(text) // does not escape
	if c := labels.ParseClass(b); c != labels.UnknownClass {
		return c
	}
	i := bytes.Index(b, []byte("class="))
	if i < 0 || i > 0 && isWordByte(b[i-1]) {
		return labels.Unclassed
	}
	word := bytes.Trim(b[i+len("class="):], `'"`)
	end := bytes.IndexFunc(word, func(r rune) bool { return r > 0x7f || !isWordByte(byte(r)) })
	if end >= 0 {
		word = word[:end]
	}
	if len(word) == 0 {
		return labels.UnknownClass
	}
	return labels.ParseClass(word)
}

// isWordByte reports whether c may stand in the name of a class or of a key.
func isWordByte(c byte) bool {
	return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
