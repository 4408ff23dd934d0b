package relay

import (
	"context"
	"errors"
	"fmt"
)

var (
	// errSize is returned when a protocol cannot tell where a message ends.
	errSize = errors.New("relay: no end of the message to be seen")
	// errEarly is returned for bytes that came before TLS had begun: they would
	// be taken for bytes that it protects.
	errEarly = errors.New("relay: bytes before the TLS handshake")
)

// upward is the client's side of a session.
type upward struct {
	*Session

	in   *inlet
	wait patience
}

// run reads the client's messages and forwards, answers or swallows each. It
// returns why it ended.
func (u *upward) run(ctx context.Context) error {
	for {
		err := u.decideAll(ctx)
		if err == nil {
			err = u.flush()
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

// decideAll decides about every message in the buffer, and about one that does
// not fit in it.
func (u *upward) decideAll(ctx context.Context) error {
	for {
		m, ok, err := u.head(u.in, Client)
		if err != nil || !ok {
			return err
		}
		u.reading[Client].set(false)
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
func (u *upward) pass(m Message, v *Verdict) error {
	if err := u.Connect(""); err != nil {
		return err
	}
	if v.Expect {
		u.turn.begin(v.Idle)
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
func (u *upward) swallow(ctx context.Context, m Message, v *Verdict) error {
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

// keep moves behind a message that is to be sent later, once what stands before
// it is sent.
func (u *upward) keep(m Message) error {
	if err := u.flush(); err != nil {
		return err
	}
	kept := make([]byte, 0, len(m.Bytes)) // grows only as the bytes come
	err := u.move(m, func(part []byte) error {
		kept = append(kept, part...)
		return nil
	})
	if err == nil {
		u.many.Keep(kept)
	}
	return err
}

// upload passes on a message of which the rest is to come. Nobody else writes
// to the backend meanwhile.
func (u *upward) upload(m Message) (err error) {
	l := u.backend.Load()
	u.turn.uploading()
	l.take()
	defer func() {
		if err != nil {
			l.tear()
			return
		}
		l.give()
	}()
	left := m.Total
	return u.move(m, func(part []byte) error {
		if left -= len(part); left == 0 {
			u.turn.uploaded(u.Now())
		}
		return u.forward(l)
	})
}

// move moves behind a message, reading the rest of it, and hands each part to
// out as it comes.
func (u *upward) move(m Message, out func(part []byte) error) error {
	in, shown := u.in, len(m.Bytes)
	for left := m.Total; ; {
		part := in.next()
		part = part[:min(left, len(part))]
		if len(part) > shown && u.follow != nil {
			u.follow.Follow(Client, part[shown:])
		}
		shown = max(0, shown-len(part))
		in.p += len(part)
		left -= len(part)
		if err := out(part); err != nil {
			return err
		}
		in.r = in.p
		if left == 0 {
			return nil
		}
		if err := u.rest(); err != nil {
			return err
		}
	}
}

// flush forwards what is decided.
func (u *upward) flush() error {
	if u.in.p == u.in.r {
		return nil
	}
	l := u.backend.Load()
	l.take()
	defer l.give()
	return u.forward(l)
}

// forward is flush with the right to write.
func (u *upward) forward(l *lane) error {
	in := u.in
	err := l.send(in.buf[in.r:in.p])
	in.r = in.p
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBackendGone, err)
	}
	return nil
}
