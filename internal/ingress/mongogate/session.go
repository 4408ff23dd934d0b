package mongogate

import (
	"fmt"
	"net"
	"sync"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/mongowire"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// session is what the gate knows of one connection. It is a [relay.Protocol]:
// the client's side decides, the backend's side judges, and what is asked is
// written by the one before it is expected and read by the other after it.
type session struct {
	s    *Server
	o    *settings // under which the connection came
	who  peer
	open connOpenWork // cursors and transactions that this connection opened

	// Only for the client's side.
	*scratch              // while it inspects
	class    labels.Class // of the last command that was admitted or refused
	out      []byte       // scratch for answers
	// giveUp is when a hello that waits for the backend does so no longer, monotonic
	// ns; 0 = none has waited.
	giveUp int64

	asked pendingRequest
	judge judge // only for the backend's side
}

// scratch is what one needs to look at a message. It is taken for that alone: there are
// as many as messages that are looked at, so that their memory is warm.
type scratch struct {
	f      facts
	opener mongowire.Opener
	key    []byte // scratch
}

// desks holds those that nobody needs.
var desks = sync.Pool{New: func() any { return new(scratch) }} //nolint:gochecknoglobals // a pool is a cache, not state

// leave returns the scratch.
func (ses *session) leave() {
	ses.opener.Release()
	desks.Put(ses.scratch)
	ses.scratch = nil
}

// kind says what becomes of a reply.
type kind uint8

// The kinds.
const (
	kindCommand kind = iota
	kindHello        // the reply may have to be rewritten
	kindAuth         // the reply may end a login
	kindLogout
)

// asked is the request that is not answered yet: there is one at most.
type pendingRequest struct {
	id      int32 // its reply says responseTo
	stream  int32 // of the last reply in an exhaust stream, to which the next one responds
	kind    kind
	streams bool // a reply of a stream came, more follow
	sampled bool // the outcome is known
	login   bool // of kindAuth and kindHello: it would log in
	free    bool // it cost no token
	data    bool // it reads or writes
	fair    bool // the latency says something of the backend
	exhaust bool // a stream may come
	awaits  bool // a cursor that it opens waits for what is to come
	inTxn   bool
	ends    bool // the transaction, with the reply
	cost    float64
	size    int    // of the request, in bytes
	sent    int64  // monotonic ns; 0 = the latency is not looked at
	cursor  int64  // of getMore
	txn     txnKey // when inTxn
	user    string // of kindAuth and kindHello: who it would be
	inject  []byte // error that a fail point puts into the reply
}

// newSession returns what is known of a client before it spoke.
func newSession(s *Server, c net.Conn) *session {
	ses := &session{s: s, o: s.current.Load()}
	ses.who.remote = ingress.ClientAddr(c)
	return ses
}

// Inspect implements [relay.Protocol]. A server works on the commands of a
// connection one after the other, so the next one waits until the last byte of
// the reply before it was read: it would hold a permit for nothing.
func (ses *session) Inspect(r *relay.Session, m relay.Message) (relay.Verdict, error) {
	if r.Owes() {
		return relay.Verdict{Action: relay.Wait}, nil
	}
	h, err := mongowire.ReadHeader(m.Bytes, ses.o.MaxMessageBytes)
	if err != nil {
		return relay.Verdict{}, err
	}
	ses.scratch = desks.Get().(*scratch)
	defer ses.leave()
	v := identify(h, m.Bytes, &ses.f, &ses.opener)
	switch {
	case v == needMore && !m.Final:
		return relay.Verdict{Action: relay.More}, nil
	case v == broken:
		return relay.Verdict{}, fmt.Errorf("%w: opcode %d, length %d", mongowire.ErrFrame, h.Op, h.Length)
	}
	return ses.decide(r, h, v)
}

// decide says what becomes of the frame with the identified facts.
func (ses *session) decide(r *relay.Session, h mongowire.Header, v verdict) (relay.Verdict, error) {
	f, now := &ses.f, ses.s.current.Load()
	k := now.commands.find(f.name)
	switch {
	case v == opaque && f.op == mongowire.OpKillCursors:
		k = now.commands.find([]byte("killCursors"))
	case v == opaque:
		k = now.commands.other
	}
	ses.asked = pendingRequest{id: h.ID, size: h.Length}
	if now.TestCommands {
		if v, done, err := ses.failed(h, k); done {
			return v, err
		}
	}
	switch k.class {
	case classHello:
		return ses.hello(r, h)
	case classAuth, classUngated:
		return ses.passLogin(k), nil
	default:
		return ses.admit(r, h, k, now)
	}
}

// hello passes a handshake. The first one says who the client is.
func (ses *session) hello(r *relay.Session, h mongowire.Header) (relay.Verdict, error) {
	f, who := &ses.f, &ses.who
	if !who.greeted {
		who.greeted = true
		who.client = readClient(f.body)
		who.under = nil
		ses.s.counters.generation[who.generation].Add(1)
		ses.o.Observer.Handshake(who.generation)
	}
	if why := ses.o.hellos.refuse(&who.client); why != "" {
		return ses.answer(h, appendError(nil, codeInvalidReplicaSetConfig, "InvalidReplicaSetConfig", why)), nil
	}
	if wait, err := ses.reach(r); wait || err != nil {
		return relay.Verdict{Action: relay.Wait}, err
	}
	ses.asked.kind, ses.asked.user = kindHello, readUser(f.body, f.db)
	_, ses.asked.login = mongowire.Lookup(f.body, "speculativeAuthenticate")
	who.claimed = ses.asked.user
	return relay.Verdict{Expect: !f.noReply, Idle: f.awaits}, nil
}

// admit asks the limiter about a command, and forwards or refuses it.
func (ses *session) admit(r *relay.Session, h mongowire.Header, k command, now *settings) (relay.Verdict, error) {
	c := &ses.s.counters
	f, who := &ses.f, &ses.who
	req := limiter.Request{
		Key: ses.s.keys.get(now.partition(f, who, &ses.key)), Cost: k.cost, Exempt: k.exempt || who.isExempt(now), Ends: k.class == classRelease,
		MaxWait: ses.s.maxWait(f, who.generation, &now.Refusal), Deadline: f.maxTime,
	}
	ses.s.classify(now.Classes, f, who, &req)
	ses.class = req.Class
	if ses.asked.free = !who.loggedIn && ses.s.login.pass(now.Unauthenticated); ses.asked.free {
		req.Free = true
	} else {
		req.Shape = ses.s.shape(f)
	}
	if r.Draining() && !req.Exempt {
		if !ses.s.ledger.continues(f) {
			return ses.refuse(h, &limiter.Rejection{
				Reason: labels.Draining, Ingress: ses.s.gate.Name(), Partition: limiter.DefaultPartition,
			}, k.cost), nil
		}
		req.Exempt, req.Ends = true, true
	}
	err := r.Admit(req)
	who.tell(now.TopKeys, f, err)
	if req.Exempt {
		c.exempted.Add(1)
	} else {
		c.attempted.Add(1)
	}
	rej, refused := asRejection(err)
	switch {
	case refused:
		return ses.refuse(h, rej, k.cost), nil
	case err != nil:
		c.interrupted.Add(1)
		return relay.Verdict{}, err
	case !req.Exempt:
		c.successful.Add(1)
	}
	return ses.forward(r, k)
}

// forward notes what the reply to an admitted command will need.
func (ses *session) forward(r *relay.Session, k command) (relay.Verdict, error) {
	f, a := &ses.f, &ses.asked
	if string(f.name) == "killCursors" {
		ses.s.ledger.killed(f.body)
	}
	if f.noReply {
		err := r.Connect("")
		r.End(limiter.Ignored)
		return relay.Verdict{}, err
	}
	getMore := string(f.name) == "getMore" || f.op == mongowire.OpGetMore
	a.fair, a.exhaust, a.awaits = !getMore && !f.awaits && !f.exhaust && !a.free, f.exhaust, f.stream
	a.data = k.class == classRead || k.class == classWrite
	if a.cost = k.cost; a.cost == 0 {
		a.cost = 1
	}
	a.cursor = f.cursor
	if f.maxTime > 0 {
		a.sent = r.Now()
	}
	if a.txn, a.inTxn = f.txn.key(); a.inTxn {
		a.ends = k.class == classRelease
		if !a.ends {
			ses.s.ledger.began(a.txn, r.Now(), &ses.open)
		}
	}
	v := relay.Verdict{Expect: true}
	if getMore && !ses.s.current.Load().HoldStreams {
		if _, v.Idle = ses.s.ledger.hasCursor(f.cursor); v.Idle { // the server waits in it, and works on nothing
			if err := r.Connect(""); err != nil {
				return v, err
			}
			r.End(limiter.Ignored)
			a.sampled = true
		}
	}
	return v, nil
}

// Done implements [relay.Protocol]: a client that is busy has its connection
// closed after an answer when nothing is open on it, and looks for another gate;
// one that is not stays while anything is open, since its next command may
// continue what another connection began.
func (ses *session) Done(answered bool) bool {
	if answered && ses.open.Load() == 0 {
		return true
	}
	cursors, txns := ses.s.ledger.open(ses.s.gate.Now())
	return cursors+txns == 0
}
