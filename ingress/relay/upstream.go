package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"time"
)

var (
	// errSize is returned when a protocol cannot tell where a message ends.
	errSize = errors.New("relay: no end of the message to be seen")
	// errEarly is returned for bytes that came before TLS had begun: they would
	// be taken for bytes that it protects.
	errEarly = errors.New("relay: bytes before the TLS handshake")
)

// up reads the client's messages and forwards, answers or swallows each. It
// returns why it ended.
func (s *Session) up(ctx context.Context) error {
	for {
		err := s.decideAll(ctx)
		if err == nil {
			err = s.flush()
		}
		if err == nil {
			err = s.fill()
		}
		if err != nil && s.stalled.Load() {
			err = fmt.Errorf("%w: %w", ErrStalled, err)
		}
		if err != nil {
			return err
		}
	}
}

// head returns the message at the head of in. ok is false when more of it must
// be read first.
func (s *Session) head(in *inlet, from Side) (m Message, ok bool, err error) {
	b := in.next()
	if len(b) == 0 {
		return m, false, nil
	}
	total, need, err := s.p.Size(from, b)
	switch {
	case err != nil:
		return m, false, err
	case total <= 0 && in.full():
		return m, false, errSize
	case total <= 0, len(b) < min(need, total) && !in.full():
		return m, false, nil
	}
	m = Message{Bytes: b[:min(len(b), total)], Total: total}
	m.Final = m.Whole() || in.full() && !in.canGrow()
	return m, true, nil
}

// decideAll decides about every message in the buffer, and about one that does
// not fit in it.
func (s *Session) decideAll(ctx context.Context) error {
	for {
		m, ok, err := s.head(s.in, Client)
		if err != nil || !ok {
			return err
		}
		s.reading[Client].set(false)
		v, err := s.p.Inspect(s, m)
		if err != nil {
			return err
		}
		switch v.Action {
		case More:
			if s.in.full() {
				s.in.grow()
			}
			return nil
		case Wait:
			err = s.await()
		case Pass:
			err = s.pass(m, &v)
		default:
			err = s.swallow(ctx, m, &v)
		}
		if err != nil {
			return err
		}
		s.life.greeted = s.life.greeted || v.Action != Wait
	}
}

// pass moves behind a message that goes to the backend. One that is all there
// is written later, together with what follows.
func (s *Session) pass(m Message, v *Verdict) error {
	if err := s.Connect(""); err != nil {
		return err
	}
	if v.Expect {
		s.turn.begin(v.Idle)
	}
	if v.Instead == nil && m.Whole() {
		s.in.p += m.Total
		return nil
	}
	if v.Instead == nil {
		return s.upload(m)
	}
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.Send(v.Instead); err != nil {
		return fmt.Errorf("%w: %w", ErrBackendGone, err)
	}
	return s.move(m, func([]byte) error { return nil })
}

// swallow moves behind a message that goes nowhere, and answers it.
func (s *Session) swallow(ctx context.Context, m Message, v *Verdict) error {
	if err := s.flush(); err != nil {
		return err
	}
	if v.Answer != nil {
		s.life.answered.Store(s.Draining())
		if err := s.Tell(v.Answer); err != nil {
			return fmt.Errorf("%w: %w", ErrClientGone, err)
		}
	}
	if err := s.move(m, func([]byte) error { return nil }); err != nil || v.Secure == nil {
		return err
	}
	return s.secure(ctx, v.Secure)
}

// upload passes on a message of which the rest is to come. Nobody else writes
// to the backend meanwhile.
func (s *Session) upload(m Message) (err error) {
	l := s.backend.Load()
	s.turn.uploading()
	l.take()
	defer func() {
		if err != nil {
			l.tear()
			return
		}
		l.give()
	}()
	left := m.Total
	return s.move(m, func(part []byte) error {
		if left -= len(part); left == 0 {
			s.turn.uploaded(s.Now())
		}
		return s.forward(l)
	})
}

// move moves behind a message, reading the rest of it, and hands each part to
// out as it comes.
func (s *Session) move(m Message, out func(part []byte) error) error {
	in, shown := s.in, len(m.Bytes)
	for left := m.Total; ; {
		part := in.next()
		part = part[:min(left, len(part))]
		if len(part) > shown && s.follow != nil {
			s.follow.Follow(Client, part[shown:])
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
		if err := s.rest(); err != nil {
			return err
		}
	}
}

// flush forwards what is decided.
func (s *Session) flush() error {
	if s.in.p == s.in.r {
		return nil
	}
	l := s.backend.Load()
	l.take()
	defer l.give()
	return s.forward(l)
}

// forward is flush with the right to write.
func (s *Session) forward(l *lane) error {
	in := s.in
	err := l.send(in.buf[in.r:in.p])
	in.r = in.p
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBackendGone, err)
	}
	return nil
}

// rest reads more of a message that is being passed on. A drain that begins
// meanwhile wakes it, and does not end it.
func (s *Session) rest() error {
	in := s.in
	in.hold = true
	defer func() { in.hold = false }()
	s.reading[Client].set(true)
	for {
		if in.timed {
			in.timed = false
			if err := in.within(0); err != nil {
				return err
			}
		}
		err := in.fill()
		s.reading[Client].moved.Store(in.total)
		if !errors.Is(err, os.ErrDeadlineExceeded) || !s.Draining() {
			return err
		}
		in.timed = true
	}
}

// fill reads from the client. It returns [ErrDrained] when a drain found
// nothing to wait for.
func (s *Session) fill() error {
	in := s.in
	if len(in.next()) > 0 {
		s.reading[Client].set(true)
	}
	for {
		if err := s.deadline(); err != nil {
			return err
		}
		err := in.fill()
		switch {
		case err == nil:
			s.life.poll = 0
			s.reading[Client].moved.Store(in.total)
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case !s.Draining():
			return ErrGreeting
		case s.over():
			return ErrDrained
		}
	}
}

// secure begins TLS with the client.
func (s *Session) secure(ctx context.Context, conf *tls.Config) error {
	if len(s.in.next()) > 0 || s.backend.Load() != nil {
		return errEarly
	}
	s.in.release()
	t := tls.Server(s.raw, conf)
	ctx, cancel := context.WithTimeout(ctx, s.c.o.Greeting)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("relay: TLS handshake: %w", err)
	}
	s.client.conn, s.in = t, newInlet(t, &s.c.windows)
	s.in.timed = true // the handshake may have left a deadline
	return nil
}

// deadline sets how long the next read may wait: short in a drain, bounded
// before the first message, and for ever after it; see [Options.Patience] for
// what is bounded then.
func (s *Session) deadline() error {
	d, draining := time.Duration(0), s.Draining()
	switch {
	case draining:
		s.life.poll = min(max(2*s.life.poll, drainPoll), drainPollMax)
		d = s.life.poll
	case !s.life.greeted: // bytes that trickle in do not extend it
		d = max(s.c.o.Greeting-time.Since(s.life.began), time.Nanosecond)
	}
	if d == 0 && !s.in.timed {
		return nil
	}
	s.in.timed = d > 0
	err := s.in.within(d)
	if !draining && s.Draining() { // it began meanwhile: its deadline was overwritten
		s.in.timed = true
		err = s.in.within(drainPoll)
	}
	return err
}
