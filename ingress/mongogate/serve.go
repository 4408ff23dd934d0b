package mongogate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// upstream reads the client's frames and forwards, answers or drops each. It
// returns why it ended: the client or the backend has gone, or a drain is over.
func (ses *session) upstream(ctx context.Context) error {
	for {
		if err := ses.decideAll(ctx); err != nil {
			return err
		}
		if err := ses.flush(); err != nil {
			return err
		}
		ses.open.release()
		if err := ses.fill(); err != nil {
			return err
		}
	}
}

// flush forwards what is decided.
func (ses *session) flush() error {
	in := ses.in
	if in.p == in.r {
		return nil
	}
	_, err := ses.backend.Write(in.buf[in.r:in.p])
	in.r = in.p
	return err
}

// decideAll decides about every frame in the buffer, and about one that does
// not fit in it.
func (ses *session) decideAll(ctx context.Context) error {
	for {
		b := ses.in.next()
		if len(b) < headerLen {
			return nil
		}
		h, err := readHeader(b, ses.s.o.MaxMessageBytes)
		if err != nil {
			return err
		}
		whole := len(b) >= h.length
		if !whole && !ses.in.full() {
			return nil
		}
		v := identify(h, b, &ses.f, &ses.open)
		if v == needMore && !whole && ses.in.grow() {
			return nil
		}
		if v == broken {
			return fmt.Errorf("%w: opcode %d, length %d", errFrame, h.op, h.length)
		}
		forward, err := ses.decide(ctx, h, v)
		if err != nil {
			return err
		}
		if err := ses.pass(h.length, forward); err != nil {
			return err
		}
	}
}

// pass moves behind a frame of n bytes. A forwarded frame that is all there is
// written later, together with what follows; of a larger one the rest is
// passed on as it comes.
func (ses *session) pass(n int, forward bool) error {
	in := ses.in
	have := len(in.next())
	if have >= n {
		if !forward { // what was forwarded before it is flushed already
			in.r += n
		}
		in.p += n
		return nil
	}
	for left := n; left > 0; {
		c := min(left, len(in.next()))
		in.p += c
		if left -= c; left == 0 {
			ses.uploaded.Store(ses.s.gate.Now())
		}
		if !forward {
			in.r = in.p
		}
		if err := ses.flush(); err != nil {
			return err
		}
		if left > 0 {
			if err := ses.rest(); err != nil {
				return err
			}
		}
	}
	return nil
}

// rest reads more of a frame that is being passed on. A drain that begins
// meanwhile wakes it, and does not end it.
func (ses *session) rest() error {
	ses.in.timed, ses.in.hold = true, true
	defer func() { ses.in.hold = false }()
	for began := time.Now(); ; {
		if err := ses.in.within(ses.s.o.FrameTimeout); err != nil {
			return err
		}
		err := ses.in.fill()
		woken := errors.Is(err, os.ErrDeadlineExceeded) && ses.draining.Load() && time.Since(began) < ses.s.o.FrameTimeout
		if !woken {
			return err
		}
	}
}

// decide says whether the frame with the identified facts is forwarded. When
// it is, its reply is expected from here on; when it is not, it was answered
// or dropped.
func (ses *session) decide(ctx context.Context, h header, v verdict) (forward bool, err error) {
	f := &ses.f
	k := ses.s.commands.find(f.name)
	switch {
	case v == opaque && !f.noReply && f.op != opGetMore:
		return true, ses.expect(ctx, h, &entry{kind: kindUnsure})
	case v == opaque:
		k = ses.s.commands.other
		if f.op == opKillCursors {
			k = ses.s.commands.find([]byte("killCursors"))
		}
	case k.class == classFailPoint:
		return false, ses.answer(h, ses.s.points.configure(f.name, f.body))
	}
	if forward, done, err := ses.failed(ctx, h); done {
		return forward, err
	}
	switch k.class {
	case classHello:
		return ses.hello(ctx, h)
	case classAuth, classUngated:
		if f.noReply {
			return true, ses.connect(ctx)
		}
		e := ses.pend.get()
		e.kind, e.user = kindAuth, readUser(f.body, f.db)
		if string(f.name) == "saslContinue" { // goes on with what saslStart said
			e.user = ses.claimed
		}
		ses.claimed = e.user
		return true, ses.expect(ctx, h, e)
	default:
		return ses.admit(ctx, h, k)
	}
}

// expect notes that a reply to the frame will come, and makes sure that there
// is a backend to send it to.
func (ses *session) expect(ctx context.Context, h header, e *entry) error {
	if err := ses.connect(ctx); err != nil {
		e.permit.End(limiter.Dropped)
		return err
	}
	e.id, e.size = h.id, h.length
	for !ses.pend.tryPush(e) {
		if err := ses.awaitRoom(); err != nil {
			outcome := limiter.Dropped
			if errors.Is(err, errClientGone) {
				outcome = limiter.Ignored
			}
			e.permit.End(outcome)
			return err
		}
	}
	return nil
}

// Why a session ends while it waits for replies.
var (
	errBackendGone = errors.New("mongogate: backend gone")
	errClientGone  = errors.New("mongogate: client gone")
)

// hello passes a handshake. Its first one says who the client is.
func (ses *session) hello(ctx context.Context, h header) (forward bool, err error) {
	f := &ses.f
	if !ses.greeted {
		ses.greeted = true
		ses.who = readClient(f.body)
		ses.exempt = ses.exempt || ses.s.exemptName(&ses.who)
		ses.s.counters.generation[ses.who.generation].Add(1)
		ses.s.o.Observer.Handshake(ses.who.generation)
	}
	if why := ses.s.hellos.refuse(&ses.who); why != "" {
		return false, ses.answer(h, appendError(nil, codeInvalidReplicaSetConfig, "InvalidReplicaSetConfig", why))
	}
	if f.noReply {
		return true, ses.connect(ctx)
	}
	e := ses.pend.get()
	e.kind, e.monitor = kindHello, f.awaits
	e.user = readUser(f.body, f.db)
	ses.claimed = e.user
	return true, ses.expect(ctx, h, e)
}

// admit asks the limiter about a command, and forwards or refuses it.
func (ses *session) admit(ctx context.Context, h header, k command) (forward bool, err error) {
	c := &ses.s.counters
	req := limiter.Request{Key: ses.partition(), Cost: k.cost, Exempt: k.exempt || ses.exempt, MaxWait: ses.maxWait()}
	if ses.draining.Load() && !req.Exempt {
		if !ses.continues() {
			return false, ses.refuse(h, &limiter.Rejection{
				Reason: labels.Draining, Ingress: ses.s.gate.Name(), Partition: limiter.DefaultPartition,
			}, k.cost)
		}
		req.Exempt = true
	}
	e := ses.pend.get()
	e.permit, err = ses.s.gate.Admit(&ses.wait, req) //nolint:contextcheck // ends with the client, not with the drain: who waits already is served
	touched, sendErr := ses.wait.end()
	ses.in.timed = ses.in.timed || touched // the wait left a deadline behind
	if sendErr != nil {
		e.permit.End(limiter.Ignored)
		return false, sendErr
	}
	if req.Exempt {
		c.exempted.Add(1)
	} else {
		c.attempted.Add(1)
	}
	if err != nil {
		ses.pend.put(e)
		var rej *limiter.Rejection
		if !errors.As(err, &rej) {
			c.interrupted.Add(1)
			return false, err
		}
		return false, ses.refuse(h, rej, k.cost)
	}
	if !req.Exempt {
		c.successful.Add(1)
	}
	return true, ses.forwardAdmitted(ctx, h, e, k)
}

// forwardAdmitted notes what the reply to an admitted command will need.
func (ses *session) forwardAdmitted(ctx context.Context, h header, e *entry, k command) error {
	f := &ses.f
	if e.cost = k.cost; e.cost == 0 {
		e.cost = 1
	}
	if string(f.name) == "killCursors" {
		ses.s.ledger.killed(f.body)
	}
	if f.noReply {
		if err := ses.connect(ctx); err != nil {
			e.permit.End(limiter.Dropped)
			return err
		}
		e.permit.End(limiter.Ignored)
		ses.pend.put(e)
		return nil
	}
	getMore := string(f.name) == "getMore" || f.op == opGetMore
	e.fair, e.exhaust = !getMore && !f.awaits && !f.exhaust, f.exhaust
	if e.large = len(ses.in.next()) < h.length; e.large {
		ses.uploaded.Store(0)
	}
	e.cursor = f.cursor
	if f.maxTime > 0 {
		e.sent = ses.s.gate.Now()
	}
	ses.noteTxn(e, k)
	return ses.expect(ctx, h, e)
}

// noteTxn keeps the ledger of transactions.
func (ses *session) noteTxn(e *entry, k command) {
	t, ok := ses.f.txnKey()
	if !ok {
		return
	}
	if k.class == classRelease {
		e.txn = t
		return
	}
	ses.s.ledger.began(t, ses.s.gate.Now())
}

// txnKey returns the transaction that the command belongs to.
func (f *facts) txnKey() (t txnKey, ok bool) {
	if !f.inTxn || len(f.lsid) != len(t.session) {
		return t, false
	}
	copy(t.session[:], f.lsid)
	t.number = f.txn
	return t, true
}

// continues reports whether the command goes on with what is open already: in
// a drain these pass, so that work is finished rather than cut.
func (ses *session) continues() bool {
	t, inTxn := ses.f.txnKey()
	if inTxn && ses.f.startTxn {
		return false
	}
	return ses.s.ledger.knows(ses.f.cursor, t)
}

// partition builds the partition key.
func (ses *session) partition() string {
	parts := ses.s.parts
	if len(parts) == 0 {
		return ""
	}
	b := ses.key[:0]
	for i, p := range parts {
		if i > 0 {
			b = append(b, '/')
		}
		start := len(b)
		b = p(b, &ses.f, ses)
		b = b[:min(len(b), start+keyPartMax)]
	}
	ses.key = b
	return ses.s.keys.get(b)
}

// maxWait returns how long the command may wait for admission: as long as the
// policy lets clients of its generation, and not so long that the client would
// have given up before the reply.
func (ses *session) maxWait() time.Duration {
	wait := ses.s.o.Refusal.WaitAnnounced
	if ses.who.generation == Silent {
		wait = ses.s.o.Refusal.WaitSilent
	}
	if wait < 0 || ses.f.maxTime == 0 {
		return wait
	}
	left := ses.f.maxTime - ses.s.usual()
	if left <= 0 {
		return -1
	}
	if wait == 0 {
		return left
	}
	return min(wait, left)
}
