package postgresgate

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/limiter"
)

// facts are what a unit says of itself and of its session. The slices point
// into the message.
type facts struct {
	startup     *startup
	application string
	superuser   bool
	remote      netip.Addr
	task        *task
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
	kind, argument, _ := strings.Cut(name, ":")
	bits, err := strconv.Atoi(argument)
	switch {
	case kind == "comment" && argument != "" && len(argument) <= maxFact:
		return func(b []byte, f *facts) []byte {
			value := f.task.Tag(argument)
			return append(b, value[:min(len(value), maxFact)]...)
		}, nil
	case kind == "client" && err == nil && bits >= 1 && bits <= 32:
		return func(b []byte, f *facts) []byte { return ingress.AppendNetwork(b, f.remote, bits) }, nil
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
		slices.ContainsFunc(e.Clients, func(p netip.Prefix) bool { return p.Contains(f.remote) })
}

// request returns what the limiter is asked for a unit that begins with st. The
// caller holds the session's lock.
func (s *session) request(st *task) limiter.Request {
	f := facts{startup: &s.who, application: s.back.application, superuser: s.back.superuser, remote: s.remote, task: st}
	s.keyBuf = appendKey(s.keyBuf[:0], s.srv.parts, &f)
	if string(s.keyBuf) != s.key {
		s.key = string(s.keyBuf)
	}
	req := limiter.Request{
		Key: s.key, Shape: st.shape, Cost: s.srv.cost(st), Exempt: s.srv.o.isExempt(&f), MaxWait: s.who.timeout, Deadline: s.who.timeout,
	}
	if s.srv.o.Classes != nil {
		setClass(s.srv.o.Classes, &f, &req)
	}
	return req
}

// cost returns the tokens of a unit that begins with st.
func (s *Server) cost(st *task) float64 {
	cost := s.costs[st.Op]
	if s.o.PerStatement && st.N > 1 {
		cost *= float64(st.N)
	}
	return cost
}
