package postgresgate

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// task is what a client asks for: what its text says, and what it has in common with
// others.
type task struct {
	sqltext.Statement
	shape     *limiter.Shape // nil = nothing is learned of it
	Catalogue bool           // it only asks the catalogues; see [sqltext.Catalogue]
}

// unknown is a task of which nothing is known.
func unknown() task { return task{Statement: sqltext.Statement{Op: sqltext.OpOther, N: 1}} }

// reader reads texts of a client.
type reader struct {
	learner *limiter.Gate // that learns shapes; nil = nobody does
	buf     []byte        // scratch
}

// parse reads a text that ends in a zero, or of which the end is not shown.
func (r *reader) parse(text []byte) task {
	return task{Statement: sqltext.ParseShown(text), shape: r.shape(text)}
}

// shape returns what a text has in common with others: itself without comments and
// literals. nil = the gate learns nothing.
func (r *reader) shape(text []byte) *limiter.Shape {
	if r.learner == nil || !r.learner.Learns() {
		return nil
	}
	if shown, _, whole := cutString(text); whole {
		text = shown
	}
	r.buf = sqltext.Normalise(r.buf[:0], text)
	return r.learner.Shape(uint64(ingress.Fold(ingress.NewFingerprint(), r.buf)), func() string { return string(r.buf) })
}

// facts are what a unit says of itself and of its session. The slices point
// into the message.
type facts struct {
	reported
	startup *startup
	remote  netip.Addr
	task    *task
}

// scratch is what one needs to look at a message. It is taken for that alone: there are
// as many as messages that are looked at, so that their memory is warm.
type scratch struct {
	task  task
	facts facts
}

// desks holds those that nobody needs.
var desks = sync.Pool{New: func() any { return new(scratch) }} //nolint:gochecknoglobals // a pool is a cache, not state

// leave returns a scratch, without what lay on it.
func (d *scratch) leave() {
	*d = scratch{}
	desks.Put(d)
}

// part appends one part of a partition key.
type part func(b []byte, f *facts) []byte

// simpleParts are the parts that take no argument.
var simpleParts = map[string]part{ //nolint:gochecknoglobals // a constant table
	"database":    func(b []byte, f *facts) []byte { return append(b, f.startup.database...) },
	"user":        func(b []byte, f *facts) []byte { return append(b, f.startup.user...) },
	"application": func(b []byte, f *facts) []byte { return append(b, f.application...) },
	"client":      func(b []byte, f *facts) []byte { return f.remote.AppendTo(b) },
	"operation":   func(b []byte, f *facts) []byte { return append(b, f.task.Op.String()...) },
}

// parseParts reads [Options.PartitionBy].
func parseParts(by []string) (parts []part, err error) {
	for _, name := range by {
		p := simpleParts[name]
		if p == nil {
			if p, err = parsePart(name); err != nil {
				return nil, err
			}
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// parsePart reads a part that takes an argument.
func parsePart(name string) (part, error) {
	if bits, ok := ingress.NetworkBits(name); ok {
		return func(b []byte, f *facts) []byte { return ingress.AppendNetwork(b, f.remote, bits) }, nil
	}
	if tag, ok := strings.CutPrefix(name, "comment:"); ok && tag != "" && len(tag) <= maxFact {
		return func(b []byte, f *facts) []byte {
			value := f.task.Tag(tag)
			return append(b, value[:min(len(value), maxFact)]...)
		}, nil
	}
	return nil, fmt.Errorf("postgresgate: partition by %q: want database, user, application, client, client:1..32, operation or comment:KEY", name)
}

// appendKey appends the partition key.
func appendKey(b []byte, parts []part, f *facts) []byte {
	for i, p := range parts {
		if i > 0 {
			b = append(b, '/')
		}
		b = p(b, f)
	}
	return b
}

// isExempt reports whether the unit is never refused.
func (o *Options) isExempt(f *facts) bool {
	e := &o.Exempt
	return f.superuser && !o.GateSuperusers ||
		slices.Contains(e.Users, f.startup.user) ||
		f.application != "" && slices.Contains(e.Applications, f.application) ||
		slices.Contains(e.Operations, f.task.Op.String()) ||
		ingress.In(e.Clients, f.remote)
}

// key is the last partition key of a session, so that it is not made anew.
type key struct {
	last string
	buf  []byte // scratch
}

// request returns what the limiter is asked for a unit.
func (s *settings) request(f *facts, k *key) limiter.Request {
	k.buf = appendKey(k.buf[:0], s.parts, f)
	if string(k.buf) != k.last {
		k.last = string(k.buf)
	}
	req := limiter.Request{
		Key: k.last, Shape: f.task.shape, Cost: s.cost(f.task), Exempt: s.isExempt(f),
		MaxWait: f.startup.timeout, Deadline: f.startup.timeout,
	}
	if s.Classes != nil {
		setClass(s.Classes, f, &req)
	}
	return req
}

// cost returns the tokens of a unit that begins with st.
func (s *settings) cost(st *task) float64 {
	cost := s.costs[st.Op]
	if s.PerStatement && st.N > 1 {
		cost *= float64(st.N)
	}
	return cost
}

// setClass puts the class of a unit into its request. What continues a
// transaction is never refused, whatever its class.
func setClass(classes *ingress.Classes, f *facts, req *limiter.Request) {
	c := ingress.ClassFacts{Application: f.application, User: f.startup.user, Client: f.remote}
	c.Operation = func(rule int) bool {
		return slices.Contains(classes.Rules[rule].Operations, f.task.Op.String())
	}
	classes.Classify(req, &c, func(by int) labels.Class {
		if key, ok := strings.CutPrefix(classes.By[by], "comment:"); ok {
			return labels.ParseClass(f.task.Tag(key))
		}
		return ingress.ClassIn(f.application)
	})
}

// saw tells who sent a unit, once it is decided, if somebody wants to know.
func (s *Server) saw(f *facts, err error) {
	board := s.current.Load().TopKeys
	if !board.Due() {
		return
	}
	_, refused := errors.AsType[*limiter.Rejection](err)
	board.Saw(&topkeys.Asker{
		Client: f.remote, Application: f.application, User: f.startup.user,
		Operation: topkeys.Operation{Verb: f.task.Op.String(), Object: f.startup.database},
	}, refused)
}
