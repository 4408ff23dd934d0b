package relay

import (
	"errors"
	"os"
)

// keep moves behind a message that is to be sent later, once what stands before
// it is sent.
func (u *clientSide) keep(m Message) error {
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
func (u *clientSide) upload(m Message) (err error) {
	l := u.backend.Load()
	u.uploading()
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
			u.uploaded()
		}
		return u.forward(l)
	})
}

// move moves behind a message, reading the rest of it, and hands each part to
// out as it comes.
func (u *clientSide) move(m Message, out func(part []byte) error) error {
	for left, shown := m.Total, len(m.Bytes); ; {
		if err := out(u.advance(&left, &shown)); err != nil {
			return err
		}
		u.in.r = u.in.p
		if left == 0 {
			u.reading.set(false)
			return nil
		}
		if err := u.rest(); err != nil {
			return err
		}
	}
}

// rest reads more of a message that is being passed on. A drain that begins
// meanwhile wakes it, and does not end it.
func (u *clientSide) rest() error {
	in := &u.in
	in.hold = true
	defer func() { in.hold = false }()
	u.reading.set(true)
	for {
		if u.timed {
			u.timed = false
			if err := u.within(0); err != nil {
				return err
			}
		}
		err := in.fill()
		u.moved()
		if !errors.Is(err, os.ErrDeadlineExceeded) || !u.Draining() {
			return err
		}
		u.timed = true
	}
}
