package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/admitd/admitd/internal/ingress"
)

var (
	// errSize is returned when a protocol cannot tell where a message ends.
	errSize = errors.New("relay: no end of the message to be seen")
	// errEarly is returned for bytes that came before TLS had begun: they would
	// be taken for bytes that it protects.
	errEarly = errors.New("relay: bytes before the TLS handshake")
)

// clientSide is the client's side of a session.
type clientSide struct {
	side

	wait waitContext
}

// run reads the client's messages and forwards, answers or swallows each. It
// returns why it ended.
func (u *clientSide) run(ctx context.Context) error {
	for {
		err := u.decideAll(ctx)
		// What passed is waited for, also when what comes behind it ends the session.
		if lost := u.flush(); err == nil {
			err = lost
		}
		if err == nil {
			err = u.fill()
		}
		if err != nil && u.stalled.Load() {
			err = fmt.Errorf("%w: %w", ErrStalled, err)
		}
		if err != nil {
			return err
		}
	}
}

// fill reads from the client. It returns [ErrDrained] when a drain found
// nothing to wait for, and errTired when nothing has come for a while.
func (u *clientSide) fill() error {
	in := &u.in
	if len(in.next()) > 0 {
		u.reading.set(true)
	}
	for {
		// Before the read: a client that asks again faster than a draining
		// session polls never lets a read time out.
		if u.Draining() && u.over() {
			return ErrDrained
		}
		if err := u.deadline(); err != nil {
			return err
		}
		err := in.fill()
		switch {
		case err == nil:
			u.life.poll = 0
			u.moved()
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case u.isIdle(err):
			if err = u.idled(false); err != nil {
				return err
			}
		case !u.Draining():
			return ErrGreeting
		}
	}
}

// moved notes that bytes came from the client.
func (u *clientSide) moved() {
	u.reading.moved.Store(u.in.total)
	u.resume()
}

// deadline sets how long the next read may wait: short in a drain, bounded
// before the first message, and after it until the side is tired; see
// [Options.Patience] for what is bounded then.
func (u *clientSide) deadline() error {
	d, draining := time.Duration(0), u.Draining()
	switch {
	case draining:
		u.life.poll = min(max(2*u.life.poll, drainPoll), drainPollMax)
		d = u.life.poll
	case !u.life.greeted: // bytes that trickle in do not extend it
		d = max(u.o.Greeting-time.Since(u.life.began), time.Nanosecond)
	case u.setIdleDeadline():
		return nil
	}
	if d == 0 && !u.timed {
		return nil
	}
	u.timed = d > 0
	err := u.within(d)
	if !draining && u.Draining() { // it began meanwhile: its deadline was overwritten
		u.timed = true
		err = u.within(drainPoll)
	}
	return err
}

// decideAll decides about every message in the buffer, and about one that does
// not fit in it.
func (u *clientSide) decideAll(ctx context.Context) error {
	for {
		m, ok, err := u.head()
		if err != nil || !ok {
			return err
		}
		u.reading.set(false)
		v, err := u.p.Inspect(u.Session, m)
		if err != nil {
			return err
		}
		switch v.Action {
		case More:
			if u.in.full() {
				u.in.grow()
			}
			return nil
		case Wait:
			err = u.await()
		case Pass:
			err = u.pass(m, &v)
		case Keep:
			err = u.keep(m)
		default:
			err = u.swallow(ctx, m, &v)
		}
		if err != nil {
			return err
		}
		u.life.greeted = u.life.greeted || v.Action != Wait
	}
}

// pass moves behind a message that goes to the backend. One that is all there
// is written later, together with what follows.
func (u *clientSide) pass(m Message, v *Verdict) error {
	if err := u.Connect(""); err != nil {
		return err
	}
	if v.Expect {
		u.expect(v.Idle)
	}
	if v.Instead == nil && m.Whole() {
		u.in.p += m.Total
		return nil
	}
	if v.Instead == nil {
		return u.upload(m)
	}
	if err := u.flush(); err != nil {
		return err
	}
	if err := u.Send(v.Instead); err != nil {
		return fmt.Errorf("%w: %w", ErrBackendGone, err)
	}
	return u.move(m, func([]byte) error { return nil })
}

// swallow moves behind a message that goes nowhere, and answers it.
func (u *clientSide) swallow(ctx context.Context, m Message, v *Verdict) error {
	if err := u.flush(); err != nil {
		return err
	}
	if v.Answer != nil {
		u.life.answered.Store(u.Draining())
		if err := u.Tell(v.Answer); err != nil {
			return fmt.Errorf("%w: %w", ErrClientGone, err)
		}
	}
	if err := u.move(m, func([]byte) error { return nil }); err != nil || v.Secure == nil {
		return err
	}
	return u.secure(ctx, v.Secure)
}

// secure begins TLS with the client.
func (u *clientSide) secure(ctx context.Context, conf *tls.Config) error {
	if len(u.in.next()) > 0 || u.backend.Load() != nil {
		return errEarly
	}
	u.in.release()
	t, err := ingress.Secure(ctx, u.raw, conf, u.o.Greeting)
	if err != nil {
		return err
	}
	u.client.begin(t, nil)
	u.in.begin(t, nil, &u.o.windows)
	u.touched() // the handshake may have left a deadline
	return nil
}

// flush forwards what is decided.
func (u *clientSide) flush() error {
	if u.in.p == u.in.r {
		return nil
	}
	l := u.backend.Load()
	l.take()
	defer l.give()
	return u.forward(l)
}

// forward is flush with the right to write.
func (u *clientSide) forward(l *peerWriter) error {
	in := &u.in
	err := l.send(in.buf[in.r:in.p])
	in.r = in.p
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBackendGone, err)
	}
	return nil
}
