package postgresgate

import (
	"maps"

	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
)

// maxPrepared bounds the prepared statements of one connection that the gate
// knows; of further ones it does not know what they do.
const maxPrepared = 1000

// prepared is what the statements do that a client has prepared. Only for the
// client's side.
type prepared struct {
	reader
	known map[string]task // by name
}

// add notes what a statement does that a Parse prepares.
// catalogue: it is found out whether it only asks the catalogues.
func (p *prepared) add(body []byte, catalogue bool) {
	name, rest, ok := cutString(body)
	if !ok {
		return
	}
	name = identifier(name)
	st := p.parse(rest)
	st.Statement = st.Clone()
	st.Catalogue = catalogue && sqltext.Catalogue(text(rest))
	old, known := p.known[string(name)]
	switch {
	case !known && len(p.known) >= maxPrepared:
		return
	case known && len(name) > 0 && old.Op.Outranks(st.Op): // the server will not replace it
		return
	}
	if p.known == nil {
		p.known = map[string]task{}
	}
	p.known[string(name)] = st
}

// bound returns what the statement does that a Bind names.
func (p *prepared) bound(body []byte) task {
	_, rest, _ := cutString(body) // the portal
	name, _, shown := cutString(rest)
	st, ok := p.known[string(identifier(name))]
	if !ok || !shown {
		return unknown()
	}
	st.N = 1
	p.follow(&st)
	return st
}

// follow forgets all when the task is to forget.
func (p *prepared) follow(st *task) {
	if st.Forgets {
		clear(p.known)
	}
}

// closed forgets a statement that a Close names.
func (p *prepared) closed(body []byte) {
	if len(body) > 0 && body[0] == 'S' {
		name, _, _ := cutString(body[1:])
		delete(p.known, string(identifier(name)))
	}
}

// doubt forgets what is never refused: the server may not have come to a Parse. What
// is not known is admitted like anything else.
func (p *prepared) doubt() {
	maps.DeleteFunc(p.known, func(_ string, st task) bool { return st.Op == sqltext.OpFree })
}
