package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"time"
)

// rest reads more of a message that is being passed on. A drain that begins
// meanwhile wakes it, and does not end it.
func (u *upward) rest() error {
	in := u.in
	in.hold = true
	defer func() { in.hold = false }()
	u.reading[Client].set(true)
	for {
		if in.timed {
			in.timed = false
			if err := in.within(0); err != nil {
				return err
			}
		}
		err := in.fill()
		u.moved()
		if !errors.Is(err, os.ErrDeadlineExceeded) || !u.Draining() {
			return err
		}
		in.timed = true
	}
}

// fill reads from the client. It returns [ErrDrained] when a drain found
// nothing to wait for, and errTired when nothing has come for a while.
func (u *upward) fill() error {
	in := u.in
	if len(in.next()) > 0 {
		u.reading[Client].set(true)
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
		case u.in.tired(err):
			if err = u.yawn(Client, false); err != nil {
				return err
			}
		case !u.Draining():
			return ErrGreeting
		}
	}
}

// moved notes that bytes came from the client.
func (u *upward) moved() {
	u.reading[Client].moved.Store(u.in.total)
	u.turn.resume(u.again)
}

// secure begins TLS with the client.
func (u *upward) secure(ctx context.Context, conf *tls.Config) error {
	if len(u.in.next()) > 0 || u.backend.Load() != nil {
		return errEarly
	}
	u.in.release()
	t := tls.Server(u.raw, conf)
	ctx, cancel := context.WithTimeout(ctx, u.c.o.Greeting)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("relay: TLS handshake: %w", err)
	}
	u.client.secure(t)
	u.in = newInlet(t, &u.c.windows)
	u.in.touched() // the handshake may have left a deadline
	return nil
}

// deadline sets how long the next read may wait: short in a drain, bounded
// before the first message, and after it until the side is tired; see
// [Options.Patience] for what is bounded then.
func (u *upward) deadline() error {
	d, draining := time.Duration(0), u.Draining()
	switch {
	case draining:
		u.life.poll = min(max(2*u.life.poll, drainPoll), drainPollMax)
		d = u.life.poll
	case !u.life.greeted: // bytes that trickle in do not extend it
		d = max(u.c.o.Greeting-time.Since(u.life.began), time.Nanosecond)
	case u.doze(Client):
		return nil
	}
	if d == 0 && !u.in.timed {
		return nil
	}
	u.in.timed = d > 0
	err := u.in.within(d)
	if !draining && u.Draining() { // it began meanwhile: its deadline was overwritten
		u.in.timed = true
		err = u.in.within(drainPoll)
	}
	return err
}

// over reports whether a drain lets the session end: nothing is unanswered that
// must be waited for, no message is half read, and the protocol agrees.
func (u *upward) over() bool {
	open, idle := u.turn.owes()
	if open && !idle || len(u.in.next()) > 0 {
		return false
	}
	return u.p.Done(u.life.answered.Load())
}
